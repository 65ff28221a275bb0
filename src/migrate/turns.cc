#include "migrate/turns.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

#include "json/json.h"

namespace coxswain::migrate {
namespace {

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (!is_whole || !std::isfinite(value) || value < 0 || value > 1e15) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> bytes_of(std::string_view text, double unit_bytes) {
  const auto value = number(text);
  if (!value || *value * unit_bytes > 1e18) return std::nullopt;
  return std::to_string(static_cast<std::uint64_t>(*value * unit_bytes));
}

std::optional<std::string> count_of(std::string_view text) {
  constexpr std::string_view kUnits = "kmgKMG";
  constexpr double kFactors[] = {1e3, 1e6, 1e9, 1024.0, 1048576.0, 1073741824.0};
  const std::size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  if (unit == std::string_view::npos) return bytes_of(text, 1);
  return bytes_of(text.substr(0, text.size() - 1), kFactors[unit]);
}

std::vector<std::string> entries_of(std::string_view text) {
  std::vector<std::string> out;
  if (text.starts_with('[')) {
    const auto list = json::parse(text);
    if (list.ok() && list->is_array()) {
      for (const json::Value& entry : list->as_array())
        if (entry.is_string()) out.push_back(entry.as_string());
      return out;
    }
  }
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) out.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

std::pair<std::string, std::string> host_and_port(std::string_view text) {
  if (const std::size_t scheme = text.find("://"); scheme != std::string_view::npos)
    text.remove_prefix(scheme + 3);
  text = text.substr(0, text.find('/'));
  const std::size_t colon = text.rfind(':');
  const bool is_bare_v6 = !text.starts_with('[') && text.find(':') != colon;
  if (colon == std::string_view::npos || is_bare_v6 || text.ends_with(']'))
    return {std::string(text), ""};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

std::optional<std::string> model_of(std::string_view text) {
  for (const std::string_view hub : {"hf.co/", "huggingface.co/"})
    if (text.starts_with(hub)) return std::string(text.substr(hub.size()));
  const bool is_path = text.starts_with('/') || text.starts_with('.') || text.starts_with('~') ||
                       text.ends_with(".gguf");
  return is_path ? std::optional<std::string>(text) : std::nullopt;
}

std::optional<Guesses> guesses_of(std::string_view json_text) {
  const auto document = json::parse(json_text);
  if (!document.ok() || !document->is_object()) return std::nullopt;
  const auto text_of = [&](std::string_view key) {
    const json::Value* value = document->find(key);
    return value != nullptr && value->is_string() ? value->as_string() : std::string();
  };
  const std::string method = text_of("method");
  const json::Value* n = document->find("num_speculative_tokens");
  if (n == nullptr || !n->is_number()) return std::nullopt;
  Guesses out{.n_tokens = json::write(*n), .model = text_of("model")};
  if (method == "ngram" || out.model == "[ngram]") {
    out.model.clear();
    return out;
  }
  const bool is_known =
      method.empty() || method == "draft_model" || method == "medusa" || method == "mlp_speculator";
  return is_known && !out.model.empty() ? std::optional<Guesses>(out) : std::nullopt;
}

}  // namespace coxswain::migrate
