#include "router/wording.h"

#include <array>
#include <charconv>
#include <utility>

namespace coxswain::router {

std::string_view Wording::name(std::string_view field) const {
  if (field == "inputs") return prompt_field_;
  if (native()) return field;
  const auto called = [](std::string_view name, std::string_view usual) {
    return name.empty() ? usual : name;
  };
  if (field == "max_new_tokens") return called(parameters_.new_tokens_field, "max_tokens");
  if (field == "top_n_tokens") return called(parameters_.top_tokens_field, "top_logprobs");
  return field;
}

Status Wording::refuse(std::string_view field,
                       std::string_view native_text,
                       std::string_view limit,
                       std::string_view given) const {
  if (native()) return refuse(field, std::string(native_text));
  std::string text = "`";
  text += name(field);
  text += "` must be ";
  text += limit;
  text += ". Given: ";
  text += given;
  return refuse(field, std::move(text));
}

Status Wording::refuse(std::string_view field, std::string text) const {
  return invalid_argument(std::move(text), std::string(name(field)));
}

std::string number_text(float value) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), written.ptr};
}

}  // namespace coxswain::router
