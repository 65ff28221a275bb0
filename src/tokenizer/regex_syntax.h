#pragma once
// Tokenizer files are written for Oniguruma in Ruby syntax; PCRE2 differs where it matters in three
// places, which to_pcre2() rewrites: \w and \s have Unicode's meaning, a [ inside a class opens a
// nested class, and
// && is the intersection of classes. Thread rule: pure function.

#include <string>
#include <string_view>

namespace coxswain::tokenizer {

// A pattern that does not parse is returned as far as it goes; PCRE2 then says what is wrong.
std::string to_pcre2(std::string_view pattern);

}  // namespace coxswain::tokenizer
