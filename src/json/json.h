#pragma once
// JSON values, read strictly and written compactly.
//
// Reading (RFC 8259, stricter where robustness asks): UTF-8 only, no BOM, no trailing content, a
// depth limit, repeated keys refused, numbers that overflow a double refused, escaped lone
// surrogates refused. A number keeps its text, so integers are exact in 64 bits and f32 fields
// narrow once. Object members keep their order; look-up is linear for small objects and by index
// above 16 members.
//
// Thread rule: values; const access from any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::json {

class Value;
class Object;
using Array = std::vector<Value>;

// The text of a number as it stood in the document, or as the writer would print it.
struct Number {
  std::string text;
  friend bool operator==(const Number&, const Number&) = default;
};

class Value {
 public:
  enum class Type : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

  Value() = default;                                    // null
  Value(std::nullptr_t) {}                              // NOLINT(google-explicit-constructor)
  Value(bool v) : data_(v) {}                           // NOLINT(google-explicit-constructor)
  Value(Number v) : data_(std::move(v)) {}              // NOLINT(google-explicit-constructor)
  Value(std::string v) : data_(std::move(v)) {}         // NOLINT(google-explicit-constructor)
  Value(std::string_view v) : data_(std::string(v)) {}  // NOLINT(google-explicit-constructor)
  Value(const char* v) : data_(std::string(v)) {}       // NOLINT(google-explicit-constructor)
  Value(Array v) : data_(std::move(v)) {}               // NOLINT(google-explicit-constructor)
  Value(Object v);                                      // NOLINT(google-explicit-constructor)
  static Value integer(std::int64_t v);
  static Value unsigned_integer(std::uint64_t v);
  static Value real(double v);  // REQUIRES: finite; shortest text that reads back the same

  Type type() const;
  bool is_null() const { return type() == Type::kNull; }
  bool is_bool() const { return type() == Type::kBool; }
  bool is_number() const { return type() == Type::kNumber; }
  bool is_string() const { return type() == Type::kString; }
  bool is_array() const { return type() == Type::kArray; }
  bool is_object() const { return type() == Type::kObject; }

  // REQUIRES: the matching type (checked; a mismatch aborts).
  bool as_bool() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();
  const std::string& number_text() const;

  // Empty if this is no number, has a fraction or exponent, or does not fit.
  std::optional<std::int64_t> to_int64() const;
  std::optional<std::uint64_t> to_uint64() const;
  // Empty if this is no number or not finite as double. Integers convert.
  std::optional<double> to_double() const;
  bool is_integer_text() const;  // a number without '.', 'e' or 'E'

  // Member of an object; nullptr if this is no object or has no such member.
  const Value* find(std::string_view key) const;

  friend bool operator==(const Value& a, const Value& b);

 private:
  std::variant<std::monostate, bool, Number, std::string, Array, std::shared_ptr<Object>> data_;
};

// Members in document order.
class Object {
 public:
  using Member = std::pair<std::string, Value>;

  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  // Replaces the value of an existing key in place, otherwise appends.
  void set(std::string key, Value value);
  bool erase(std::string_view key);
  // Appends without looking for an equal key. REQUIRES: the key is new.
  void append_new(std::string key, Value value);

  std::size_t size() const { return members_.size(); }
  bool empty() const { return members_.empty(); }
  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }
  auto begin() { return members_.begin(); }
  auto end() { return members_.end(); }

  friend bool operator==(const Object& a, const Object& b) { return a.members_ == b.members_; }

 private:
  struct Index;  // key hash -> position; there once the object is large
  void rebuild_index_if_large();

  std::vector<Member> members_;
  std::shared_ptr<Index> index_;
};

struct ParseLimits {
  std::size_t depth_max = 128;
  std::size_t number_chars_max = 64;
  std::size_t members_max = std::size_t{1} << 24;   // per object
  std::size_t elements_max = std::size_t{1} << 24;  // per array
  // Members of the root object whose arrays, and arrays directly in those, have a limit elsewhere.
  std::span<const std::string_view> arrays_without_limit = {};
};

// Errors: kInvalidArgument with kind kInvalidJson (kValidation for a repeated key and for too many
// members or elements), message with line and column.
Result<Value> parse(std::string_view text, const ParseLimits& limits = {});

// Reads and parses a whole file. Errors name the path; kNotFound if it cannot be opened,
// kInvalidArgument if it is larger than bytes_max.
Result<Value> parse_file(const std::string& path,
                         std::size_t bytes_max,
                         const ParseLimits& limits = {});

// Compact text: no blanks, members in order, non-ASCII characters as they are.
std::string write(const Value& value);

// Appends `text` quoted and escaped. Each byte that is no UTF-8 comes out as U+FFFD.
void append_quoted(std::string& out, std::string_view text);
void append_real32(std::string& out, float value);  // "null" for NaN and infinities
void append_integer(std::string& out, std::int64_t value);
void append_unsigned(std::string& out, std::uint64_t value);

}  // namespace coxswain::json
