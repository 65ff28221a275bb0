#pragma once
// Pre-tokenizer steps that are no split by a pattern. Thread rule: immutable.

#include <memory>

#include "tokenizer/pretokenizer.h"

namespace coxswain::tokenizer {

std::unique_ptr<PreTokenizer> make_prefix_space();   // a blank before each piece that has none
std::unique_ptr<PreTokenizer> make_byte_alphabet();  // every byte as a character of the alphabet

}  // namespace coxswain::tokenizer
