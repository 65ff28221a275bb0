#pragma once
// The script of a character, from PCRE2's tables. Thread rule: immutable.

#include <cstddef>
#include <utility>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::tokenizer {

class UnicodeScripts {
 public:
  // Errors: kInvalidArgument if PCRE2 has no Unicode tables.
  static Result<UnicodeScripts> create();

  // A number for each script; 0 = unknown. Hiragana, Katakana and the long-vowel mark count as Han,
  // as in SentencePiece and the reference.
  std::size_t script_of(char32_t c) const;

 private:
  // Neighbouring characters of one script; what lies in none is unknown.
  struct Range {
    char32_t first = 0;
    char32_t last = 0;
    std::size_t script = 0;
  };
  explicit UnicodeScripts(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}
  std::vector<Range> ranges_;  // in order
};

}  // namespace coxswain::tokenizer
