#pragma once
// Post-processing: the special tokens around a text, and offsets without the blanks of byte-level tokens.
//
// Thread rule: values.

#include <cstddef>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain::json {
class Value;
}

namespace coxswain::tokenizer {

struct PostProcessor {
  // The special tokens before the text and behind it. A template may leave the text out or write it
  // several times: [copies of the text + 1], what goes before, between and behind them.
  std::vector<std::vector<TokenId>> special = std::vector<std::vector<TokenId>>(2);
  std::size_t n_plain_copies = 1;  // of the text where no special tokens are wanted
  bool trims_offsets = false;      // offsets leave out the blanks at both ends of a token
  bool adds_prefix_space = true;   // the first token's first blank was not in the input

  std::vector<TokenId>& prefix() { return special.front(); }
  std::vector<TokenId>& suffix() { return special.back(); }
};

// The "post_processor" section of a tokenizer.json.
// Errors: kInvalidArgument naming the member at fault below `where`, also for sequences of
// processors that the reference cannot run.
Result<PostProcessor> parse_post_processor(const json::Value& section, const std::string& where);

}  // namespace coxswain::tokenizer
