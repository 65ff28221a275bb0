#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "base/keyed_hash.h"
#include "json/json.h"

namespace coxswain::json {
namespace {

constexpr std::size_t kIndexedAbove = 16;

[[noreturn]] void wrong_type(const char* wanted) {
  std::fprintf(stderr, "fatal: json::Value is not %s\n", wanted);
  std::abort();
}

template <typename Integer>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace

// Keys are looked up through their hash; equal hashes are told apart by the member itself, so the
// index holds no copy of a key.
struct Object::Index {
  std::unordered_multimap<std::size_t, std::size_t> positions;
};

Value::Value(Object v) : data_(std::make_shared<Object>(std::move(v))) {}

Value Value::integer(std::int64_t v) {
  return Number{std::to_string(v)};
}
Value Value::unsigned_integer(std::uint64_t v) {
  return Number{std::to_string(v)};
}

Value Value::real(double v) {
  if (!std::isfinite(v)) wrong_type("a finite number");
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v).ptr;
  return Number{std::string(buffer.data(), end)};
}

Value::Type Value::type() const {
  return static_cast<Type>(data_.index());
}

bool Value::as_bool() const {
  if (!is_bool()) wrong_type("a boolean");
  return std::get<bool>(data_);
}

const std::string& Value::as_string() const {
  if (!is_string()) wrong_type("a string");
  return std::get<std::string>(data_);
}

const Array& Value::as_array() const {
  if (!is_array()) wrong_type("an array");
  return std::get<Array>(data_);
}

Array& Value::as_array() {
  if (!is_array()) wrong_type("an array");
  return std::get<Array>(data_);
}

const Object& Value::as_object() const {
  if (!is_object()) wrong_type("an object");
  return *std::get<std::shared_ptr<Object>>(data_);
}

Object& Value::as_object() {
  if (!is_object()) wrong_type("an object");
  auto& shared = std::get<std::shared_ptr<Object>>(data_);
  // Values copy on write: a copy of a Value must not change with the original.
  if (shared.use_count() > 1) shared = std::make_shared<Object>(*shared);
  return *shared;
}

const std::string& Value::number_text() const {
  if (!is_number()) wrong_type("a number");
  return std::get<Number>(data_).text;
}

bool Value::is_integer_text() const {
  return is_number() && number_text().find_first_of(".eE") == std::string::npos;
}

std::optional<std::int64_t> Value::to_int64() const {
  if (!is_integer_text()) return std::nullopt;
  return parse_integer<std::int64_t>(number_text());
}

std::optional<std::uint64_t> Value::to_uint64() const {
  if (!is_integer_text()) return std::nullopt;
  return number_text() == "-0" ? 0 : parse_integer<std::uint64_t>(number_text());
}

std::optional<double> Value::to_double() const {
  if (!is_number()) return std::nullopt;
  const std::string& text = number_text();
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  // A value too small for a double is reported as out of range as well; it is zero to the nearest double.
  if (error == std::errc::result_out_of_range) out = std::strtod(text.c_str(), nullptr);
  if (!std::isfinite(out)) return std::nullopt;
  return out;
}

const Value* Value::find(std::string_view key) const {
  return is_object() ? as_object().find(key) : nullptr;
}

bool operator==(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (a.is_object()) return a.as_object() == b.as_object();
  return a.data_ == b.data_;
}

const Value* Object::find(std::string_view key) const {
  if (!index_) {
    for (const Member& member : members_) {
      if (member.first == key) return &member.second;
    }
    return nullptr;
  }
  const auto [begin, end] = index_->positions.equal_range(base::keyed_hash(key));
  for (auto it = begin; it != end; ++it) {
    if (members_[it->second].first == key) return &members_[it->second].second;
  }
  return nullptr;
}

Value* Object::find(std::string_view key) {
  return const_cast<Value*>(std::as_const(*this).find(key));
}

void Object::set(std::string key, Value value) {
  if (Value* existing = find(key)) {
    *existing = std::move(value);
    return;
  }
  append_new(std::move(key), std::move(value));
}

bool Object::erase(std::string_view key) {
  const auto it = std::find_if(
      members_.begin(), members_.end(), [&](const Member& m) { return m.first == key; });
  if (it == members_.end()) return false;
  members_.erase(it);
  index_.reset();
  rebuild_index_if_large();
  return true;
}

void Object::append_new(std::string key, Value value) {
  members_.emplace_back(std::move(key), std::move(value));
  // An index shared with a copy of this object is left to the copy.
  if (index_ && index_.use_count() == 1) {
    index_->positions.emplace(base::keyed_hash(members_.back().first), members_.size() - 1);
    return;
  }
  rebuild_index_if_large();
}

// Built while the object is still being written by one thread, so that find() only reads.
void Object::rebuild_index_if_large() {
  if (members_.size() <= kIndexedAbove) return;
  auto index = std::make_shared<Index>();
  index->positions.reserve(2 * members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    index->positions.emplace(base::keyed_hash(members_[i].first), i);
  }
  index_ = std::move(index);
}

}  // namespace coxswain::json
