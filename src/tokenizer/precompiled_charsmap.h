#pragma once
// SentencePiece's precompiled character map: longest-prefix replacement by a double-array trie
// (Darts) over UTF-8, as stored in NormalizerSpec.precompiled_charsmap.
//
// Layout: uint32 bytes of trie; the trie's 32-bit units; replacement strings, each ended by NUL. A
// trie value is an offset into the strings. Thread rule: immutable.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::tokenizer {

class Normalizer;

class PrecompiledCharsmap {
 public:
  PrecompiledCharsmap() = default;  // maps nothing
  // Errors: kInvalidArgument if the sizes do not fit.
  static Result<PrecompiledCharsmap> from_bytes(std::string_view bytes);

  bool empty() const { return units_.empty(); }

  struct Match {
    std::size_t n_bytes = 0;  // of the text
    std::string_view replacement;
  };
  // The longest key that `text` starts with. Never reads outside the map, whatever it contains.
  std::optional<Match> longest_match(std::string_view text) const;
  // The shortest one: what the reference's tokenizers library takes.
  std::optional<Match> shortest_match(std::string_view text) const;

 private:
  template <typename Visit>
  void visit_prefixes(std::string_view text, Visit visit) const;
  std::string_view replacement(std::uint32_t value) const;

  std::vector<std::uint32_t> units_;
  std::string strings_;
};

// The normalizer "Precompiled" of a tokenizer.json; `base64` is the member's text.
// Errors: kInvalidArgument naming `where`.
Result<std::unique_ptr<Normalizer>> make_precompiled_normalizer(std::string_view base64,
                                                                const std::string& where);

}  // namespace coxswain::tokenizer
