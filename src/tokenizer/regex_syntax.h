#pragma once
// Tokenizer files are written for Oniguruma in Ruby syntax; PCRE2 differs where it matters, and
// to_pcre2() rewrites that:
//
//   \w \s \d \b, POSIX brackets   Unicode's meaning as Oniguruma has it (\b goes by that \w)
//   \h                            a hexadecimal digit
//   \v                            the vertical tab alone
//   \uHHHH                        a code point
//   \p{Han}                       the script, not PCRE2's script extensions; names as Oniguruma
//                                 spells them (\p{Alpha}, \p{letter}, \p{^L})
//   (?m)                          the dot matches line breaks
//   {,n}                          at most n
//   [ inside a class              a nested class; && is the intersection
//
// Characters that are newer than PCRE2's tables are added to the classes they belong to.
// Not rewritten: a character that folds to two without regard to case (ss for a sharp s).
// Refused: \y and \Y (between two text segments or not) and (?~..) (absent operators), for which PCRE2
// has no means, and Unicode blocks (\p{In_Cyrillic}), which no known file asks for.
// Thread rule: pure function. Doc: github.com/kkos/oniguruma, doc/RE.

#include <string>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::tokenizer {

// A pattern that does not parse is returned as far as it goes; PCRE2 then says what is wrong.
// Errors: kInvalidArgument naming what cannot be rewritten and where it stands.
Result<std::string> to_pcre2(std::string_view pattern);

}  // namespace coxswain::tokenizer
