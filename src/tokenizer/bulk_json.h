#pragma once
// The two large sections of a tokenizer.json, read without building JSON values: model.vocab and
// model.merges are most of a file of many megabytes.
//
// cut_bulk_sections() only finds where they stand; the rest of the file goes to the json module,
// the sections to the readers below, which accept exactly what JSON allows there. Thread rule: pure
// functions.

#include <cstddef>
#include <cstdint>
#include <optional>
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

// Never fails: where the text is no JSON, `rest` is not either.
BulkSections cut_bulk_sections(std::string_view text);

// A list, or what stands before and behind a comma between two of its items.
enum class ListPart { kWhole, kHead, kTail };
struct ListHalves {
  std::string_view head;
  std::string_view tail;
};
// Cuts a list of merges near its middle. Empty if no place for that is seen there. A place that
// only looks like one is no danger: then one of the halves cannot be read.
std::optional<ListHalves> halve_merges(std::string_view list);

// How many entries a section has, or some more: what memory to get before it is read.
std::size_t n_tokens_max(std::string_view vocab_object);
std::size_t n_merges_max(std::string_view list);

// {"token": id, ...}. Errors: kInvalidArgument with the offset in the section; what visit returns.
Status read_vocab_object(std::string_view section,
                         base::FunctionRef<Status(std::string_view token, std::int64_t id)> visit);
// [["token", score], ...]
Status read_vocab_array(std::string_view section,
                        base::FunctionRef<Status(std::string_view token, double score)> visit);
// ["a b", ...] or [["a", "b"], ...]
Status read_merge_array(
    std::string_view section,
    base::FunctionRef<Status(std::string_view left, std::string_view right)> visit,
    ListPart part = ListPart::kWhole);

}  // namespace coxswain::tokenizer
