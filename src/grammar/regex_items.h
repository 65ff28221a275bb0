#pragma once
// The parts that a regular expression is made of, as it is written. Internal to the reader (regex.h).
// Thread rule: values.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "grammar/characters.h"

namespace coxswain::grammar::regex {

struct Item;
using ItemPtr = std::shared_ptr<const Item>;

// A part of a pattern. Anchors are parts of their own until branches_of() has dealt with them.
struct Item {
  enum class Kind : std::uint8_t { kSet, kSequence, kChoice, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kSequence;
  CharacterSet set = {};
  std::vector<ItemPtr> parts = {};
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  bool has_anchor = false;
};

// `item` with has_anchor as its parts have it.
ItemPtr make_item(Item item);

// Errors: as parse_regex().
Result<ItemPtr> parse_items(std::string_view pattern);

}  // namespace coxswain::grammar::regex
