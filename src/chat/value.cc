#include "chat/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

#include "base/keyed_hash.h"
#include "chat/callable.h"

namespace coxswain::chat {

void fail(std::string message) {
  throw RenderError{std::move(message)};
}

void require_output(std::size_t n_bytes, std::size_t bytes_max) {
  if (n_bytes > bytes_max)
    fail("the template makes a text of more than " + std::to_string(bytes_max) + " bytes");
}

void require_defined(const Value& value) {
  if (value.is_undefined()) fail(value.undefined_message());
}

namespace {

constexpr std::size_t kNodesMax = std::size_t{4} << 20;
constexpr std::size_t kDepthMax = 256;
constexpr std::size_t kIndexedAbove = 16;

// Equal keys have equal hashes; 1, 1.0 and True are one key.
std::size_t hash_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kString:
      return base::keyed_hash(value.as_bytes());
    case Value::Kind::kBool:
    case Value::Kind::kInt:
      return std::hash<std::int64_t>{}(value.as_int());
    case Value::Kind::kLargeInt:
      return base::keyed_hash(value.as_digits());
    case Value::Kind::kFloat: {
      const double real = value.as_double();
      const bool fits = real >= -0x1p63 && real < 0x1p63 && real == std::trunc(real);
      return fits ? std::hash<std::int64_t>{}(static_cast<std::int64_t>(real))
                  : std::hash<double>{}(real);
    }
    case Value::Kind::kList: {
      if (!is_tuple(value)) return 0;
      std::size_t out = value.as_list().items.size();
      for (const Value& item : value.as_list().items)
        out = (out ^ hash_of(item)) * 0x9E3779B97F4A7C15ULL;
      return out;
    }
    default:
      return 0;
  }
}

}  // namespace

void Extent::add(const Extent& part) {
  nodes += part.nodes;
  depth = std::max(depth, part.depth + 1);
  holds_namespace = holds_namespace || part.holds_namespace;
  if (nodes > kNodesMax)
    fail("the template makes a value of more than " + std::to_string(kNodesMax) + " parts");
  if (depth > kDepthMax)
    fail("the template makes a value nested deeper than " + std::to_string(kDepthMax));
}

Extent Value::extent() const {
  switch (kind()) {
    case Kind::kString:
      return {1 + as_bytes().size() / 16, 1, false};
    case Kind::kLargeInt:
      return {1 + as_digits().size() / 16, 1, false};
    case Kind::kList:
      return as_list().extent;
    case Kind::kDict:
      return as_dict().extent();
    case Kind::kNamespace:
      return {1, 1, true};
    // A function may hold any value it was made from; only macros are known to hold none.
    case Kind::kCallable:
      return {1, 1, !as_callable().is_macro()};
    default:
      return {1, 1, false};
  }
}

const Value* Dict::find(std::string_view key) const {
  const auto is_it = [&](const Value& other) {
    return other.is_string() && other.as_bytes() == key;
  };
  if (index_.empty()) {
    const auto it = std::ranges::find_if(items_, is_it, &std::pair<Value, Value>::first);
    return it == items_.end() ? nullptr : &it->second;
  }
  const auto [begin, end] = index_.equal_range(base::keyed_hash(key));
  for (auto it = begin; it != end; ++it) {
    if (is_it(items_[it->second].first)) return &items_[it->second].second;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(key.as_bytes());
  if (index_.empty()) {
    const auto it = std::ranges::find(items_, key, &std::pair<Value, Value>::first);
    return it == items_.end() ? nullptr : &it->second;
  }
  const auto [begin, end] = index_.equal_range(hash_of(key));
  for (auto it = begin; it != end; ++it) {
    if (items_[it->second].first == key) return &items_[it->second].second;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  const Value* existing = find(key);
  if (existing == nullptr) {
    append_new(std::move(key), std::move(value));
    return;
  }
  extent_.nodes -= existing->extent().nodes;
  extent_.add(value.extent());
  const_cast<Value&>(*existing) = std::move(value);
}

void Dict::append_new(Value key, Value value) {
  extent_.add(key.extent());
  extent_.add(value.extent());
  items_.emplace_back(std::move(key), std::move(value));
  if (items_.size() <= kIndexedAbove) return;
  for (std::size_t i = index_.size(); i < items_.size(); ++i)
    index_.emplace(hash_of(items_[i].first), i);
}

namespace {

std::shared_ptr<List> make_list(std::vector<Value> items, ListKind kind) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) list->extent.add(item.extent());
  list->items = std::move(items);
  list->kind = kind;
  return list;
}

}  // namespace

Value Value::list(std::vector<Value> items, ListKind kind) {
  return Value(std::shared_ptr<const List>(make_list(std::move(items), kind)));
}

Value Value::dict_view(std::vector<Value> items, std::string_view name) {
  auto list = make_list(std::move(items), ListKind::kDictView);
  list->view_name = name;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Value Value::integer(std::string_view digits) {
  std::int64_t small = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), small);
  if (parsed.ec == std::errc()) return integer(small);
  const bool negative = digits.starts_with('-');
  digits.remove_prefix(digits.find_first_not_of("-0"));
  return Value(std::make_shared<const std::string>((negative ? "-" : "") + std::string(digits)));
}

std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() <=> b.as_int();
  // Holds all integers of 64 bits and all doubles.
  static_assert(std::numeric_limits<long double>::digits >= 64);
  const auto exact = [](const Value& value) {
    return value.is_float() ? static_cast<long double>(value.as_double())
                            : static_cast<long double>(value.as_int());
  };
  return exact(a) <=> exact(b);
}

Value Value::name_space(Dict v) {
  return Value(std::make_shared<Namespace>(Namespace{std::move(v)}));
}

std::string Value::undefined_message() const {
  const auto& hint = std::get<Undefined>(data_).hint;
  return hint ? *hint : "a value is undefined";
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return std::get<bool>(data_);
    case Kind::kInt:
      return std::get<std::int64_t>(data_) != 0;
    case Kind::kFloat:
      return std::get<double>(data_) != 0;
    case Kind::kString:
      return !as_text().empty();
    case Kind::kList:
      return as_list().kind == ListKind::kGenerator || !as_list().items.empty();
    case Kind::kDict:
      return as_dict().size() != 0;
    case Kind::kLargeInt:
    case Kind::kNamespace:
    case Kind::kCallable:
      return true;
  }
  return false;
}

bool Value::same_object(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kList:
      return &as_list() == &other.as_list();
    case Kind::kDict:
      return &as_dict() == &other.as_dict();
    case Kind::kNamespace:
      return &as_namespace() == &other.as_namespace();
    case Kind::kCallable:
      return &as_callable() == &other.as_callable();
    default:
      return *this == other;
  }
}

bool operator==(const Value& a, const Value& b) {
  using Kind = Value::Kind;
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.as_bytes() == b.as_bytes();
    case Kind::kLargeInt:
      return a.as_digits() == b.as_digits();
    case Kind::kList: {
      const auto family = [](const Value& value) {
        return is_tuple(value) ? ListKind::kTuple : value.as_list().kind;
      };
      if (family(a) != family(b)) return false;
      return a.as_list().kind == ListKind::kGenerator ? a.same_object(b)
                                                      : a.as_list().items == b.as_list().items;
    }
    case Kind::kDict: {
      if (a.as_dict().size() != b.as_dict().size()) return false;
      return std::ranges::all_of(a.as_dict().items(), [&](const auto& item) {
        const Value* other = b.as_dict().find(item.first);
        return other != nullptr && *other == item.second;
      });
    }
    default:
      return a.same_object(b);
  }
}

bool is_indexable(const Value& value) {
  if (!value.is_list()) return false;
  const ListKind kind = value.as_list().kind;
  return kind != ListKind::kGenerator && kind != ListKind::kDictView;
}

bool is_hashable(const Value& value) {
  if (is_tuple(value)) return std::ranges::all_of(value.as_list().items, is_hashable);
  return !value.is_list() && !value.is_dict();
}

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return "Undefined";
    case Value::Kind::kNone:
      return "NoneType";
    case Value::Kind::kBool:
      return "bool";
    case Value::Kind::kInt:
    case Value::Kind::kLargeInt:
      return "int";
    case Value::Kind::kFloat:
      return "float";
    case Value::Kind::kString:
      return "str";
    case Value::Kind::kList:
      switch (value.as_list().kind) {
        case ListKind::kList:
          return "list";
        case ListKind::kTuple:
          return "tuple";
        case ListKind::kGenerator:
          return "generator";
        case ListKind::kDictView:
          return std::string(value.as_list().view_name);
        case ListKind::kGroup:
          return "_GroupTuple";
      }
      return "list";
    case Value::Kind::kDict:
      return "dict";
    case Value::Kind::kNamespace:
      return "Namespace";
    case Value::Kind::kCallable:
      return "function";
  }
  return "object";
}

const Value* take_next(const Value& generator) {
  const List& list = generator.as_list();
  return list.n_taken < list.items.size() ? &list.items[list.n_taken++] : nullptr;
}

std::vector<Value> iterate(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return {};
    case Value::Kind::kList: {
      const List& list = value.as_list();
      if (list.kind != ListKind::kGenerator) return list.items;
      const auto begin = list.items.begin() + static_cast<std::ptrdiff_t>(list.n_taken);
      list.n_taken = list.items.size();
      return {begin, list.items.end()};
    }
    case Value::Kind::kDict: {
      std::vector<Value> keys;
      for (const auto& [key, member] : value.as_dict().items()) keys.push_back(key);
      return keys;
    }
    case Value::Kind::kString: {
      std::vector<Value> characters;
      const auto offsets = code_point_offsets(value.as_bytes());
      for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        Text character = value.as_text().slice(offsets[i], offsets[i + 1]);
        character.safe = false;  // iterating gives plain strings
        characters.push_back(Value::string(std::move(character)));
      }
      return characters;
    }
    default:
      fail("'" + type_name(value) + "' object is not iterable");
  }
}

}  // namespace coxswain::chat
