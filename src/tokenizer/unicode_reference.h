#pragma once
// Where the characters of the reference library are not those of libutf8proc and PCRE2.
//
// The reference is built from parts with tables of different age: its regular expressions know
// Unicode 16, its normalization forms and some classes Unicode 8 to 10. Model files were made with
// it, so a tokenizer has to see what it sees. Thread rule: pure functions.

#include <span>
#include <string_view>

namespace coxswain::tokenizer {

// Characters of Unicode 15 and 16 with their general category ("Lu", "Mn", ...), in order.
struct NewerCharacters {
  char32_t first;
  char32_t last;
  std::string_view category;
};
std::span<const NewerCharacters> newer_characters();
// Empty for a character that is not among them.
std::string_view newer_category(char32_t c);

bool reference_decomposes(char32_t c);  // false: normalization leaves it alone
bool reference_moves(char32_t c);       // false: normalization does not order it among marks
bool strip_accents_keeps(char32_t c);   // a mark that StripAccents does not know
bool bert_keeps_mark(char32_t c);       // a nonspacing mark that BertNormalizer does not know
bool bert_keeps_format(char32_t c);     // a format character that BertNormalizer does not know
bool is_unknown_punctuation(char32_t c);

}  // namespace coxswain::tokenizer
