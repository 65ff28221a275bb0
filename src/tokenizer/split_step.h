#pragma once
// Steps that cut pieces where a pattern matches, with the five behaviours of a delimiter.
//
// A match of nothing cuts too; pieces of nothing are dropped. Thread rule: immutable.

#include <memory>
#include <string>

#include "tokenizer/pretokenizer.h"
#include "tokenizer/regex.h"

namespace coxswain::tokenizer {

struct SplitRule {
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what does not match is the delimiter
};

std::unique_ptr<PreTokenizer> make_scanner_split(SplitScanner scanner, SplitRule rule = {});
std::unique_ptr<PreTokenizer> make_regex_split(Regex regex, SplitRule rule);
std::unique_ptr<PreTokenizer> make_literal_split(std::string literal, SplitRule rule);

// Every character for which `test` holds is a match of its own.
using CharacterTest = bool (*)(char32_t c);
std::unique_ptr<PreTokenizer> make_character_split(CharacterTest test, SplitBehavior behavior);

// Keeps runs of word characters, and runs of what is neither a word character nor white space.
std::unique_ptr<PreTokenizer> make_word_split();

}  // namespace coxswain::tokenizer
