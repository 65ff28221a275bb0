#include "api/wording.h"

#include <array>
#include <utility>

namespace coxswain::api {
namespace {

// Members of Ollama's `options`, by the names of native fields.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kOllamaNames{{
    {"temperature", "options.temperature"},
    {"repetition_penalty", "options.repeat_penalty"},
    {"frequency_penalty", "options.frequency_penalty"},
    {"presence_penalty", "options.presence_penalty"},
    {"top_p", "options.top_p"},
    {"typical_p", "options.typical_p"},
    {"top_k", "options.top_k"},
    {"min_p", "options.min_p"},
    {"stop", "options.stop"},
}};

}  // namespace

std::string_view Wording::name(std::string_view field) const {
  // TGI names the fields of its own request, whatever the client called them.
  if (style_ == ApiStyle::kTgi) return field;
  if (field == "inputs") return prompt_field_;
  if (native()) return field;
  const auto called = [](std::string_view name, std::string_view usual) {
    return name.empty() ? usual : name;
  };
  if (field == "max_new_tokens") return called(parameters_.new_tokens_field, "max_tokens");
  if (field == "stop" && style_ == ApiStyle::kAnthropic) return "stop_sequences";
  if (style_ == ApiStyle::kOllama) {
    for (const auto& [native_name, ollama] : kOllamaNames)
      if (field == native_name) return ollama;
  }
  if (field == "min_new_tokens") return "min_tokens";
  if (field == "stop_token_sequences" || field == "end_ids") return "stop_token_ids";
  if (field == "repetition_penalty") return called(parameters_.repetition_penalty_field, field);
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

Status Wording::refuse(std::string_view field, const request::Range& range, float given) const {
  const std::string legal = range.text();
  std::string native_text = "`" + std::string(field) + "` must be ";
  native_text += range.is_positive() ? "strictly positive" : legal;
  return refuse(field, native_text, legal, request::number_text(given));
}

Status Wording::refuse(std::string_view field, std::string text) const {
  return invalid_argument(std::move(text), std::string(name(field)));
}

}  // namespace coxswain::api
