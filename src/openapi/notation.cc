#include "openapi/notation.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/fatal.h"

namespace coxswain::openapi {
namespace {

using json::Array;
using json::Object;
using json::Value;

Object typed(std::string_view type) {
  Object out;
  out.append_new("type", type);
  return out;
}

Object integers(std::int64_t low, std::uint64_t high) {
  Object out = typed("integer");
  out.append_new("minimum", Value::integer(low));
  out.append_new("maximum", Value::unsigned_integer(high));
  return out;
}

Object reference(std::string_view name) {
  Object out;
  out.append_new("$ref", "#/components/schemas/" + std::string(name));
  return out;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Value whole() {
    Value out = type();
    base::require(rest_.empty(), "a type of the API's description goes on behind its end");
    return out;
  }

 private:
  // Strings that stand beside each other are one `enum`.
  Value type() {
    Array all;
    Array texts;
    do {
      if (take("'")) {
        texts.emplace_back(text());
      } else {
        all.push_back(one());
      }
    } while (take("|"));
    if (!texts.empty()) {
      Object words = typed("string");
      if (texts.size() == 1) {
        words.append_new("const", std::move(texts.front()));
      } else {
        words.append_new("enum", std::move(texts));
      }
      all.insert(all.begin(), Value(std::move(words)));
    }
    if (all.size() == 1) return std::move(all.front());
    Object out;
    out.append_new("anyOf", std::move(all));
    return Value(std::move(out));
  }

  std::string text() {
    const std::size_t end = rest_.find('\'');
    base::require(end != std::string_view::npos, "a text of the API's description has no end");
    std::string out(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    skip_blanks();
    return out;
  }

  Value one() {
    if (take("[")) {
      Object out = typed("array");
      out.append_new("items", type());
      base::require(take("]"), "an array of the API's description has no end");
      return bounded(std::move(out), "Items");
    }
    if (take("{")) {
      Object out = typed("object");
      out.append_new("additionalProperties", type());
      base::require(take("}"), "an object of the API's description has no end");
      return bounded(std::move(out), "Properties");
    }
    const std::size_t end = std::min(rest_.find_first_of(" |]}"), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    skip_blanks();
    return named(word);
  }

  Value named(std::string_view word) {
    base::require(!word.empty(), "a type of the API's description is empty");
    if (word == "any") return Value(Object());
    if (word == "null") return Value(typed(word));
    if (word == "bool") return Value(typed("boolean"));
    if (word == "object") return bounded(typed(word), "Properties");
    if (word == "string") return bounded(typed(word), "Length");
    if (word == "integer" || word == "number") return bounded(typed(word), "");
    if (word == "u32") return bounded(integers(0, std::numeric_limits<std::uint32_t>::max()), "");
    if (word == "u64") return bounded(integers(0, std::numeric_limits<std::uint64_t>::max()), "");
    if (word == "i32") {
      using Limits = std::numeric_limits<std::int32_t>;
      return bounded(integers(Limits::min(), Limits::max()), "");
    }
    base::require(word.front() >= 'A' && word.front() <= 'Z',
                  "a word of the API's description is no type");
    return Value(reference(word));
  }

  // `sized`: what the keywords that bound a size end in; empty: bounds are of the value.
  Value bounded(Object out, std::string_view sized) {
    const auto bound = [&](std::string_view of_value, std::string_view of_size) {
      const std::size_t end = std::min(rest_.find_first_of(" |]}"), rest_.size());
      std::string key(of_value);
      if (!sized.empty()) {
        key = of_size;
        key += sized;
      }
      out.set(std::move(key), Value(json::Number{std::string(rest_.substr(0, end))}));
      rest_.remove_prefix(end);
      skip_blanks();
    };
    for (;;) {
      if (take(">=")) {
        bound("minimum", "min");
      } else if (take("<=")) {
        bound("maximum", "max");
      } else if (take(">")) {
        out.erase("minimum");
        bound("exclusiveMinimum", "");
      } else if (take("<")) {
        out.erase("maximum");
        bound("exclusiveMaximum", "");
      } else {
        return Value(std::move(out));
      }
    }
  }

  bool take(std::string_view mark) {
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    skip_blanks();
    return true;
  }

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
};

}  // namespace

Value schema_of(std::string_view type) {
  return Reader(type).whole();
}

Value nullable_schema_of(std::string_view type) {
  Value schema = schema_of(type);
  Object& object = schema.as_object();
  if (object.empty()) return schema;
  if (Value* name = object.find("type"); name != nullptr && object.find("const") == nullptr) {
    *name = Array{*name, "null"};
    if (Value* words = object.find("enum")) words->as_array().emplace_back();
    return schema;
  }
  Array any;
  if (const Value* all = object.find("anyOf")) {
    any = all->as_array();
  } else {
    any.push_back(schema);
  }
  any.emplace_back(typed("null"));
  Object out;
  out.append_new("anyOf", std::move(any));
  return Value(std::move(out));
}

}  // namespace coxswain::openapi
