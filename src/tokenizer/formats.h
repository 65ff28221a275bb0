#pragma once
// One reader for each file format; each gives the parts of a tokenizer. load.cc chooses among them.
//
// Errors of all: kInvalidArgument or kDataLoss naming the entry at fault; the caller adds the
// file's name.

#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "tokenizer/pipeline.h"

namespace coxswain::json {
class Value;
}

namespace coxswain::tokenizer {

inline constexpr std::size_t kFileBytesMax = std::size_t{512} << 20;
inline constexpr std::int64_t kTokenIdMax =
    (std::int64_t{1} << 22) - 1;  // twice the largest vocabulary supported

// The tokenizer.json of the Hugging Face library `tokenizers`.
Result<TokenizerParts> read_tokenizer_json(std::string_view text);

// What tokenizer_config.json and special_tokens_map.json say about a tokenizer that was read.
Status apply_tokenizer_config(const json::Value& config, TokenizerParts& parts);

}  // namespace coxswain::tokenizer
