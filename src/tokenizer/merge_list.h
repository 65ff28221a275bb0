#pragma once
// Reads the merges of a tokenizer.json, the larger part of the time that loading one takes.
//
// A long list is read in two halves, one of them on a thread that ends before the function does.
// The result, and the error if there is one, are those of reading it from the start to the end.
// Thread rule: pure function.

#include <string_view>

#include <coxswain/status.h>

#include "tokenizer/bpe.h"
#include "tokenizer/token_table.h"

namespace coxswain::tokenizer {

// `list` is the array as it stands in the file; the rank of a merge is its place there. What two
// tokens make is written as both side by side, without the right one's `prefix` (that of tokens
// inside a word). Errors: kInvalidArgument naming the entry, without the name of the member.
Result<MergeTable> read_merges(std::string_view list,
                               const TokenTable& names,
                               std::string_view prefix);

}  // namespace coxswain::tokenizer
