#include "api/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "api/errors.h"

namespace coxswain::api {
namespace {

// Whether `text` is one of the blank-separated words of `words`.
bool is_word_of(std::string_view text, std::string_view words) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == text) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

std::string quoted(std::string_view name) {
  std::string out = "`";
  out += name;
  out += '`';
  return out;
}

// "a or b" from words with blanks between.
std::string or_list(std::string_view words) {
  std::string out;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (!out.empty()) out += " or ";
    out += words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return out;
}

// The nearest float; of a number between two integers the nearest that is between them, too: bounds are integers, and
// rounding shall make none right that is wrong, nor the other way round.
float rounded(double number) {
  const auto nearest = static_cast<float>(number);
  const bool became_integer = std::trunc(nearest) == nearest && std::trunc(number) != number;
  if (!became_integer) return nearest;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, number < static_cast<double>(nearest) ? -kInfinity : kInfinity);
}

std::string_view why_not(const DocumentedField& field, Place here) {
  if (here == kNativeDocument && (field.places & kNativeParameters) != 0) {
    return " must stand in `parameters`";
  }
  if (here == kNativeParameters && (field.places & kNativeDocument) != 0) {
    return " must stand beside `parameters`, not in it";
  }
  if (here == kOllamaDocument && (field.places & kOllamaOptions) != 0)
    return " must stand in `options`";
  return field.places == 0 ? " is not supported yet"
                           : " is a field of another route, not of this one";
}

}  // namespace

Status unsupported(std::string message, std::string_view field) {
  return {Code::kUnimplemented, ErrorKind::kValidation, std::move(message), std::string(field)};
}

Status within(const Status& refusal, std::string_view place, std::string field) {
  Status placed = refusal.with_context(place);
  return {placed.code(), placed.kind(), placed.message(), std::move(field)};
}

std::string_view type_name(const json::Value& value) {
  switch (value.type()) {
    case json::Value::Type::kNull:
      return "null";
    case json::Value::Type::kBool:
      return "a boolean";
    case json::Value::Type::kNumber:
      return value.is_integer_text() ? "an integer" : "a number";
    case json::Value::Type::kString:
      return "a string";
    case json::Value::Type::kArray:
      return "an array";
    case json::Value::Type::kObject:
      return "an object";
  }
  return "null";
}

const json::Value* FieldReader::find(std::string_view name) {
  known_.insert(name);
  const json::Value* value = object_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void FieldReader::fail(std::string message, std::string_view field) {
  fail(invalid_argument(std::move(message), std::string(field)));
}

void FieldReader::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void FieldReader::fail_type(std::string_view name,
                            std::string_view expected,
                            const json::Value& value) {
  fail(quoted(name) + " must be " + std::string(expected) + ". Given: " + given_text(value), name);
}

std::string given_text(const json::Value& value) {
  return value.is_number() ? echo(value.number_text()) : std::string(type_name(value));
}

std::optional<bool> FieldReader::read_bool(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) {
    fail_type(name, "a boolean", *value);
    return std::nullopt;
  }
  return value->as_bool();
}

std::optional<float> FieldReader::read_float(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = value->to_double();
  if (!number || std::abs(*number) > static_cast<double>(std::numeric_limits<float>::max())) {
    fail_type(name, "a finite number", *value);
    return std::nullopt;
  }
  return rounded(*number);
}

std::optional<std::uint32_t> FieldReader::read_u32(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::uint64_t> number = value->to_uint64();
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) {
    fail_type(name, "an integer from 0 to 4294967295", *value);
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*number);
}

std::optional<std::uint64_t> FieldReader::read_u64(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::uint64_t> number = value->to_uint64();
  if (!number) fail_type(name, "an integer from 0 to 18446744073709551615", *value);
  return number;
}

std::optional<std::int32_t> FieldReader::read_i32(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = value->to_int64();
  if (!number || *number > std::numeric_limits<std::int32_t>::max() ||
      *number < std::numeric_limits<std::int32_t>::min()) {
    fail_type(name, "an integer of 32 bits", *value);
    return std::nullopt;
  }
  return static_cast<std::int32_t>(*number);
}

std::optional<std::uint64_t> FieldReader::read_seed(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = value->to_int64();
  if (!number || *number >= 0) {
    const std::optional<std::uint64_t> out = value->to_uint64();
    if (!out) fail_type(name, "an integer of 64 bits", *value);
    return out;
  }
  if (*number == -1) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

std::optional<std::string> FieldReader::read_string(std::string_view name, std::size_t bytes_max) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    fail_type(name, "a string", *value);
    return std::nullopt;
  }
  if (value->as_string().size() > bytes_max) {
    fail(quoted(name) + " must have at most " + std::to_string(bytes_max) +
             " bytes. Given: " + std::to_string(value->as_string().size()),
         name);
    return std::nullopt;
  }
  return value->as_string();
}

std::vector<std::string> FieldReader::read_strings(std::string_view name, BareString bare) {
  const json::Value* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string() && bare == BareString::kAllowed) return {value->as_string()};
  std::vector<std::string> out;
  if (!value->is_array()) {
    fail_type(
        name,
        bare == BareString::kAllowed ? "a string or an array of strings" : "an array of strings",
        *value);
    return out;
  }
  out.reserve(value->as_array().size());
  for (const json::Value& entry : value->as_array()) {
    if (!entry.is_string()) {
      fail(quoted(name) + " must be an array of strings. Given: an array with " +
               std::string(type_name(entry)),
           name);
      return {};
    }
    out.push_back(entry.as_string());
  }
  return out;
}

void FieldReader::refuse_unless_neutral(const DocumentedField& field, std::string_view why) {
  const json::Value* value = find(field.name);
  if (value == nullptr || is_word_of(json::write(*value), field.neutral)) return;
  std::string text = quoted(field.name);
  text += why;
  if (!field.neutral.empty()) text += ", except as " + or_list(field.neutral);
  const bool is_scalar = !value->is_array() && !value->is_object();
  text += ". Given: " + (is_scalar ? echo(json::write(*value)) : std::string(type_name(*value)));
  fail(unsupported(std::move(text), field.name));
}

void FieldReader::require_neutral(std::string_view name, std::string_view neutral) {
  refuse_unless_neutral({.name = name, .neutral = neutral}, " is not supported yet");
}

void FieldReader::refuse_documented(Place here) {
  for (const auto& member : object_) {
    if (has_read(member.first)) continue;
    const DocumentedField* field = find_documented_field(member.first);
    if (field != nullptr) refuse_unless_neutral(*field, why_not(*field, here));
  }
}

void FieldReader::note_without_effect(std::span<const std::string_view> names) {
  for (std::string_view name : names) {
    if (find(name) != nullptr) without_effect_.emplace_back(name);
  }
}

std::vector<std::string> FieldReader::unknown() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : object_) {
    if (!has_read(name)) out.push_back(name);
  }
  return out;
}

}  // namespace coxswain::api
