#pragma once
// Hand-written scanners for the split patterns that model files share. One pass, constant stack.
//
// A scanner finds what the pattern's alternatives match from left to right, as a backtracking
// engine would; characters that no alternative matches are left out. Thread rule: pure functions.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace coxswain::tokenizer {

// [begin, end) in bytes of a text.
struct PieceRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const PieceRange&, const PieceRange&) = default;
};

enum class SplitScanner : std::uint8_t {
  kGpt2,            // 's|'t|... | ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kCl100k,          // (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|...
  kCl100kOneDigit,  // the same with \p{N}
  kO200k,           // words by case, a contraction at their end, \p{N}{1,3}
  kTekken,          // words by case, \p{N}
  kDeepseekWords,   // the third pattern of DeepSeek-V3
  kThreeNumbers,    // \p{N}{1,3}
  kCjkRuns,         // [一-龥぀-ゟ゠-ヿ]+
  kThreeAsciiDigits,  // [0-9][0-9][0-9]
};

// Empty if the pattern is not one of those above, letter by letter.
std::optional<SplitScanner> known_scanner(std::string_view pattern);
// One spelling of the pattern that a scanner implements: what it is tested against.
std::string_view scanner_pattern(SplitScanner scanner);

// Appends the matches in text, shifted by `base`, from byte `at` on, which is 0 or where a match ended, until there are
// `n_max` more in `out`. Returns where the next call has to start; the text's size at its end. REQUIRES: valid UTF-8.
std::size_t scan_some(SplitScanner scanner,
                      std::string_view text,
                      std::uint32_t base,
                      std::size_t at,
                      std::size_t n_max,
                      std::vector<PieceRange>& out);

}  // namespace coxswain::tokenizer
