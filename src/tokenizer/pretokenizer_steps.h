#pragma once
// Pre-tokenizer steps that are no split by a pattern. Thread rule: immutable.

#include <cstddef>
#include <memory>

#include "tokenizer/pretokenizer.h"

namespace coxswain::tokenizer {

std::unique_ptr<PreTokenizer> make_prefix_space();   // a blank before each piece that has none
std::unique_ptr<PreTokenizer> make_byte_alphabet();  // every byte as a character of the alphabet
std::unique_ptr<PreTokenizer> make_fixed_length(std::size_t n_characters);
Result<std::unique_ptr<PreTokenizer>> make_script_split();

}  // namespace coxswain::tokenizer
