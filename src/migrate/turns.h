#pragma once
// How values of other programs become ours (Turn of rule.h).
//
// Thread rule: pure functions.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coxswain::migrate {

// "32k" -> "32000", "32K" -> "32768", "1.5m". Empty if it is none.
std::optional<std::string> count_of(std::string_view text);

// `text` times `unit_bytes`.
std::optional<std::string> bytes_of(std::string_view text, double unit_bytes);

// Entries of "a,b" or of a JSON list.
std::vector<std::string> entries_of(std::string_view text);

// Host and port of "http://host:port", ":port", "host"; each may be empty.
std::pair<std::string, std::string> host_and_port(std::string_view text);

// What `--model-id` takes for the FROM of a Modelfile or a word of `ollama run`.
std::optional<std::string> model_of(std::string_view text);

// vLLM's speculative decoding as ours: the number of guesses and, if there is one, the model.
struct Guesses {
  std::string n_tokens;
  std::string model;
};
std::optional<Guesses> guesses_of(std::string_view json_text);

}  // namespace coxswain::migrate
