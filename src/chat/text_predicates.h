#pragma once
// The questions that Python's str answers about its characters (isalpha(), isdigit(), ...), and
// case changes beyond upper and lower. Thread rule: pure functions.

#include <cstdint>
#include <string_view>

#include "chat/text.h"

namespace coxswain::chat {

bool is_letter(char32_t c);            // isalpha
bool is_decimal(char32_t c);           // isdecimal
bool is_digit(char32_t c);             // isdigit: decimals and raised, lowered, circled digits
bool is_numeric(char32_t c);           // isnumeric: numbers, also those written by ideographs
bool is_letter_or_number(char32_t c);  // isalnum
bool is_printable_character(char32_t c);
bool is_word_character(char32_t c);  // \w

bool is_title_text(std::string_view text);
bool is_identifier_text(std::string_view text);

Text swap_case(const Text& text);
Text fold_case(const Text& text);  // casefold
Text expand_tabs(const Text& text, std::size_t tab_size);

}  // namespace coxswain::chat
