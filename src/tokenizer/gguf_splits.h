#pragma once
// How a byte-level text is split, by the names that GGUF files have for it (tokenizer.ggml.pre). Names and patterns are
// those of the programs that write such files.
//
// Thread rule: pure functions.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::tokenizer {

struct GgufSplit {
  // One after the other, spelled as scanner_pattern() spells them.
  std::vector<std::string> patterns;
  bool ignores_merges = false;  // a piece that is a token is that token
};

// Empty: the name is not known.
std::optional<GgufSplit> find_gguf_split(std::string_view name);
// A name for these patterns, if there is one with these merges; empty: there is no name.
std::string_view gguf_split_name(const GgufSplit& split);

}  // namespace coxswain::tokenizer
