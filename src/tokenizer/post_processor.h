#pragma once
// Post-processing: the special tokens around a text, and offsets without the blanks of byte-level
// tokens.
//
// Thread rule: values.

#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain::json {
class Value;
}

namespace coxswain::tokenizer {

struct PostProcessor {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  bool trims_offsets = false;     // offsets leave out the blanks at both ends of a token
  bool adds_prefix_space = true;  // the first token's first blank was not in the input
};

// The "post_processor" section of a tokenizer.json.
// Errors: kInvalidArgument naming the member at fault below `where`.
Result<PostProcessor> parse_post_processor(const json::Value& section, const std::string& where);

}  // namespace coxswain::tokenizer
