#pragma once
// The two large sections of a tokenizer.json, read without building JSON values: model.vocab and model.merges
// are most of a file of many megabytes.
//
// cut_bulk_sections() only finds where they stand; the rest of the file goes to the json module, the sections to the
// readers below (simdjson), which accept exactly what JSON allows there. Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "base/function_ref.h"

namespace coxswain::tokenizer {

struct BulkSections {
  std::string rest;         // the document with {} or [] in place of the sections
  std::string_view vocab;   // an object or array; empty if there is none
  std::string_view merges;  // an array; empty if there is none
};

// Never fails: where the text is no JSON, or no section is found, `rest` is the text, or is no JSON either.
BulkSections cut_bulk_sections(std::string_view text);

// {"token": id, ...}. `start` is told how many there are, before the first one. Errors: kInvalidArgument with
// the offset in the section; what visit returns.
Status read_vocab_object(std::string_view section,
                         base::FunctionRef<void(std::size_t n_tokens)> start,
                         base::FunctionRef<Status(std::string_view token, std::int64_t id)> visit);
// [["token", score], ...]
Status read_vocab_array(std::string_view section,
                        base::FunctionRef<Status(std::string_view token, double score)> visit);
// ["a b", ...] or [["a", "b"], ...]
Status read_merge_array(
    std::string_view section,
    base::FunctionRef<Status(std::string_view left, std::string_view right)> visit);

}  // namespace coxswain::tokenizer
