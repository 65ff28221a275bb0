#pragma once
// Rule: one row of what options of another program are with us. Only names that are sure stand in a table; others are
// listed as not known.
//
// Thread rule: constants.

#include <cstdint>
#include <string_view>

namespace coxswain::migrate {

enum class Form : std::uint8_t {
  kValue,
  kFlag,
  kMaybe,  // a flag that may be followed by one of `words`
  kMany,   // values up to the next option
};

// As `neutral`: whatever the value is.
inline constexpr std::string_view kAlways = "ALWAYS";

// How the value becomes ours.
enum class Turn : std::uint8_t {
  kCopy,
  kWords,  // by `words`: "theirs=ours|...", an empty one is so anyway; others have no equivalent
  kCount,  // "32k" is 32,000 and "32K" 32,768, as vLLM reads them
  kGiB,
  kMiB,
  kEach,     // each value, and each between commas or in a JSON list, is one of ours
  kFirst,    // of several values
  kAddress,  // HOST:PORT, both optional
  kModel,    // of Ollama: a file, a folder or a model of a hub
  kGuesses,  // vLLM's JSON of speculative decoding
};

struct Rule {
  // Spellings, separated by '|': options with dashes, variables, names of parameters.
  std::string_view theirs{};
  std::string_view ours{};  // without dashes; NAME=value is a variable as it stands; empty: nothing
  Form form = Form::kValue;
  Turn turn = Turn::kCopy;
  std::string_view words{};
  std::string_view neutral{};  // values of theirs that ask for what is so here anyway
  // What there is instead, where `ours` is empty or does not take the value.
  std::string_view why{};
};

}  // namespace coxswain::migrate
