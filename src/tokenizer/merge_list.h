#pragma once
// Merges by the names of their tokens. Those of a tokenizer.json are the larger part of its time to load.
//
// The tokens of a long list are looked up in two halves, one of them on a thread that ends before the function
// does. The result, and the error if there is one, do not depend on that. Thread rule: pure function.

#include <cstdint>
#include <string_view>

#include <coxswain/status.h>

#include "tokenizer/bpe.h"
#include "tokenizer/token_table.h"

namespace coxswain::tokenizer {

// Adds one merge. False if one of the three tokens is not in the vocabulary.
bool add_merge(const TokenTable& names,
               std::string_view left,
               std::string_view right,
               std::uint32_t rank,
               MergeTable& table);

// `list` is the array as it stands in the file; the rank of a merge is its place there. What two tokens make is
// written as both side by side. Errors: kInvalidArgument naming the entry, without the name of the member.
Result<MergeTable> read_merges(std::string_view list, const TokenTable& names);

}  // namespace coxswain::tokenizer
