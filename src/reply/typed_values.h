#pragma once
// Arguments that a model spells in a way of its own, as JSON.

#include <string>
#include <string_view>
#include <utility>

#include "reply/parser.h"

namespace coxswain::reply {

// The JSON value that `text` stands for as the argument `key`. What the schema calls a string stays one; numbers,
// booleans, objects and lists are taken as they are if they are JSON of a type that the schema allows, otherwise they
// are strings. Without a schema, what is JSON is taken as it is. `tool` may be null.
std::string typed_value(const Tool* tool, std::string_view key, std::string_view text);

// The text of a JSON string.
std::string quoted(std::string_view text);

// An object that is put together member by member.
class ObjectText {
 public:
  void add(std::string_view key, std::string_view value);
  std::string finish() && { return std::move(text_ += '}'); }

 private:
  std::string text_ = "{";
};

}  // namespace coxswain::reply
