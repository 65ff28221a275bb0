#pragma once
// The script of a character, from PCRE2's tables. Thread rule: immutable.

#include <cstddef>

#include <coxswain/status.h>

#include "tokenizer/regex.h"

namespace coxswain::tokenizer {

class UnicodeScripts {
 public:
  // Errors: kInvalidArgument if PCRE2 has no Unicode tables.
  static Result<UnicodeScripts> create();

  // A number for each script; 0 = unknown. Hiragana, Katakana and the long-vowel mark count as Han,
  // as in SentencePiece and the reference.
  std::size_t script_of(char32_t c) const;

 private:
  explicit UnicodeScripts(Regex regex) : regex_(std::move(regex)) {}
  Regex regex_;
};

}  // namespace coxswain::tokenizer
