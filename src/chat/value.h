#pragma once
// Value: what an expression of a template evaluates to, with the semantics of Python's objects where they show.
//
// Lists and dicts are shared and never changed after they were made (the reference runs templates in an immutable
// sandbox); only a namespace() can be written to. Integers have 64 bits; a larger one that came with the request or
// stands in the template keeps its digits, to be printed and compared for equality and nothing else.
//
// Thread rule: values of one run belong to its thread.

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "chat/text.h"

namespace coxswain::chat {

class Callable;
class Value;

// How one template failed; thrown inside this module only and turned into a Status by ChatTemplate.
struct RenderError {
  std::string message;
};

// kGroup: a tuple of groupby with the attributes grouper and list. kGenerator: can be iterated once.
enum class ListKind : std::uint8_t { kList, kTuple, kGenerator, kDictView, kGroup };

// How large and deep a value is, counted where it is made: what is too large to print or compare within reason is never
// built, also when its parts are shared ([x, x] of [x, x] of ...).
struct Extent {
  std::size_t nodes = 1;  // one per value and per 16 bytes of text, shared parts counted each time
  std::size_t depth = 1;
  bool holds_namespace = false;

  void add(const Extent& part);  // throws RenderError past the limits
};

struct List {
  Extent extent{};
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  mutable std::size_t n_taken = 0;  // of a generator: what it gave out is gone
  std::string_view view_name{};     // "dict_items", "dict_keys" or "dict_values"
};

// Insertion order, Python's equality of keys (1 == 1.0 == True).
class Dict {
 public:
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces the value of an equal key in place, otherwise appends.
  void set(Value key, Value value);
  // Appends without looking for an equal key. REQUIRES: the key is new.
  void append_new(Value key, Value value);
  void reserve(std::size_t n);
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  std::size_t size() const;
  const Extent& extent() const { return extent_; }

 private:
  Extent extent_;
  std::vector<std::pair<Value, Value>> items_;
  // Hash of a key to its place, once there are more than a few.
  std::unordered_multimap<std::size_t, std::size_t> index_;
};

struct Undefined {
  std::shared_ptr<const std::string> hint;  // "'x' is undefined", ...
};
struct None {};
struct Namespace {
  Dict attributes;
};

class Value {
 public:
  enum class Kind : std::uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kLargeInt,  // digits that do not fit 64 bits
    kFloat,
    kString,
    kList,
    kDict,
    kNamespace,
    kCallable
  };

  Value() : data_(Undefined{}) {}
  static Value undefined(std::string hint) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(hint))});
  }
  static Value none() { return Value(None{}); }
  static Value boolean(bool v) { return Value(v); }
  static Value integer(std::int64_t v) { return Value(v); }
  // kInt if it fits. REQUIRES: decimal digits, perhaps behind a '-'.
  static Value integer(std::string_view digits);
  static Value real(double v) { return Value(v); }
  static Value string(Text v) { return Value(std::make_shared<const Text>(std::move(v))); }
  static Value string(std::string v) { return string(Text(std::move(v))); }
  static Value list(std::vector<Value> items, ListKind kind = ListKind::kList);
  static Value tuple(std::vector<Value> items) { return list(std::move(items), ListKind::kTuple); }
  static Value generator(std::vector<Value> items) {
    return list(std::move(items), ListKind::kGenerator);
  }
  // `name`: "dict_items", "dict_keys" or "dict_values".
  static Value dict_view(std::vector<Value> items, std::string_view name);
  static Value dict(Dict v) { return Value(std::make_shared<const Dict>(std::move(v))); }
  static Value name_space(Dict v);
  static Value callable(std::shared_ptr<const Callable> v) { return Value(std::move(v)); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_int() const { return kind() == Kind::kInt; }
  bool is_large_int() const { return kind() == Kind::kLargeInt; }
  bool is_float() const { return kind() == Kind::kFloat; }
  bool is_integral() const { return is_bool() || is_int(); }  // as_int() holds it
  bool is_number() const { return is_integral() || is_float(); }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_dict() const { return kind() == Kind::kDict; }
  bool is_callable() const { return kind() == Kind::kCallable; }

  // REQUIRES: the matching kind.
  std::int64_t as_int() const {
    return is_bool() ? (std::get<bool>(data_) ? 1 : 0) : std::get<std::int64_t>(data_);
  }
  double as_double() const {
    return is_float() ? std::get<double>(data_) : static_cast<double>(as_int());
  }
  const std::string& as_digits() const {  // of a large integer
    return *std::get<std::shared_ptr<const std::string>>(data_);
  }
  const Text& as_text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
  const std::string& as_bytes() const { return as_text().bytes; }
  const List& as_list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  const Dict& as_dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Namespace& as_namespace() const { return *std::get<std::shared_ptr<Namespace>>(data_); }
  const Callable& as_callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }
  std::string undefined_message() const;

  Extent extent() const;
  bool truthy() const;
  bool same_object(const Value& other) const;  // Python's `is`
  friend bool operator==(const Value& a, const Value& b);

 private:
  template <typename T>
  explicit Value(T v) : data_(std::move(v)) {}

  std::variant<Undefined,
               None,
               bool,
               std::int64_t,
               std::shared_ptr<const std::string>,
               double,
               std::shared_ptr<const Text>,
               std::shared_ptr<const List>,
               std::shared_ptr<const Dict>,
               std::shared_ptr<Namespace>,
               std::shared_ptr<const Callable>>
      data_;
};

inline std::size_t Dict::size() const {
  return items_.size();
}

inline void Dict::reserve(std::size_t n) {
  items_.reserve(n);
}

// "str", "int", "dict", ... as Python's error messages name a type.
std::string type_name(const Value& value);

// Python's order of numbers, exact between integers and floats; unordered for nan. REQUIRES: numbers.
std::partial_ordering compare_numbers(const Value& a, const Value& b);

// Throws RenderError with `message`.
[[noreturn]] void fail(std::string message);
// Throws if a text of `n_bytes` is longer than a template may make.
void require_output(std::size_t n_bytes, std::size_t bytes_max);
// Throws if `value` is undefined, with the message the reference gives.
void require_defined(const Value& value);

// Items that a for loop would see; takes all that is left of a generator. Throws for what cannot be iterated.
std::vector<Value> iterate(const Value& value);

// The next item of a generator; empty at its end. REQUIRES: a generator.
const Value* take_next(const Value& generator);

inline bool is_generator(const Value& value) {
  return value.is_list() && value.as_list().kind == ListKind::kGenerator;
}
// A list that takes numbers as keys: no generator or view of a mapping.
bool is_indexable(const Value& value);
// What may be a key of a mapping.
bool is_hashable(const Value& value);
// A tuple, also one of groupby.
inline bool is_tuple(const Value& value) {
  return value.is_list() &&
         (value.as_list().kind == ListKind::kTuple || value.as_list().kind == ListKind::kGroup);
}

}  // namespace coxswain::chat
