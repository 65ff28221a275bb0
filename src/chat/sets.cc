#include "chat/sets.h"

#include <algorithm>

#include "chat/callable.h"
#include "chat/interpreter.h"

namespace coxswain::chat {
namespace {

// Values with a quick answer to "is it in there?".
class Members {
 public:
  Members() = default;
  explicit Members(const std::vector<Value>& values) {
    for (const Value& value : values) add(value);
  }
  void add(const Value& value) {
    if (!holds(value)) seen_.append_new(value, Value::none());
  }
  bool holds(const Value& value) const { return seen_.find(value) != nullptr; }
  std::size_t size() const { return seen_.size(); }
  Value to_set() const {
    std::vector<Value> items;
    items.reserve(seen_.size());
    for (const auto& [value, none] : seen_.items()) items.push_back(value);
    return Value::set(std::move(items));
  }

 private:
  Dict seen_;
};

// What Python would put into a set: all items, each of which can be hashed.
std::vector<Value> hashable_items(Interpreter& interpreter, const Value& value) {
  std::vector<Value> items = interpreter.items(value);
  for (const Value& item : items) {
    if (!is_hashable(item)) fail("unhashable type: '" + type_name(item) + "'");
  }
  return items;
}

Value keep_if(const std::vector<Value>& items, const Members& others, bool wanted) {
  Members out;
  for (const Value& item : items) {
    if (others.holds(item) == wanted) out.add(item);
  }
  return out.to_set();
}

bool all_in(const std::vector<Value>& items, const Members& others) {
  return std::ranges::all_of(items, [&](const Value& item) { return others.holds(item); });
}

using Items = std::vector<Value>;

struct SetMethod {
  std::string_view name;
  bool takes_many;  // any number of arguments, one after the other
  Value (*apply)(const Items& items, const Items& others);
};

constexpr SetMethod kSetMethods[] = {
    {"isdisjoint",
     false,
     [](const Items& items, const Items& others) {
       const Members members(others);
       return Value::boolean(
           std::ranges::none_of(items, [&](const Value& item) { return members.holds(item); }));
     }},
    {"issubset",
     false,
     [](const Items& items, const Items& others) {
       return Value::boolean(all_in(items, Members(others)));
     }},
    {"issuperset",
     false,
     [](const Items& items, const Items& others) {
       return Value::boolean(all_in(others, Members(items)));
     }},
    {"difference",
     true,
     [](const Items& items, const Items& others) {
       return keep_if(items, Members(others), false);
     }},
    {"intersection",
     true,
     [](const Items& items, const Items& others) { return keep_if(items, Members(others), true); }},
    {"union",
     true,
     [](const Items& items, const Items& others) {
       Members out(items);
       for (const Value& other : others) out.add(other);
       return out.to_set();
     }},
    {"symmetric_difference",
     false,
     [](const Items& items, const Items& others) {
       const Value behind = keep_if(others, Members(items), false);
       Items both = keep_if(items, Members(others), false).as_list().items;
       for (const Value& other : behind.as_list().items) both.push_back(other);
       return Value::set(std::move(both));
     }},
};

}  // namespace

bool is_set_like(const Value& value) {
  if (!value.is_list()) return false;
  const List& list = value.as_list();
  return list.kind == ListKind::kSet ||
         (list.kind == ListKind::kDictView && list.view_name != "dict_values");
}

std::partial_ordering compare_sets(const Value& left, const Value& right) {
  const Items& a = left.as_list().items;
  const Items& b = right.as_list().items;
  const bool fits = a.size() <= b.size() ? all_in(a, Members(b)) : all_in(b, Members(a));
  return fits ? std::partial_ordering(a.size() <=> b.size()) : std::partial_ordering::unordered;
}

Value subtract_sets(Interpreter& interpreter, const Value& left, const Value& right) {
  const auto is_view = [](const Value& value) {
    return is_set_like(value) && value.as_list().kind == ListKind::kDictView;
  };
  // A set takes sets alone, a view anything on its other side.
  const bool subtracts =
      is_view(left) || is_view(right) || (is_set_like(left) && is_set_like(right));
  if (!subtracts) return Value();
  const Items items = hashable_items(interpreter, left);
  return keep_if(items, Members(hashable_items(interpreter, right)), false);
}

Value find_set_method(const Value& object, std::string_view name) {
  const bool is_set = object.as_list().kind == ListKind::kSet;
  if (name == "copy" && is_set)
    return make_callable([object](Interpreter&, const Arguments&) { return object; });
  const auto* method = std::ranges::find(kSetMethods, name, &SetMethod::name);
  if (method == std::end(kSetMethods) || (!is_set && name != "isdisjoint")) return Value();
  return make_callable([object, method](Interpreter& interpreter, const Arguments& arguments) {
    const std::vector<Value>& given = arguments.positional;
    if (!arguments.named.empty() || (!method->takes_many && given.size() != 1))
      fail(std::string(method->name) + "() takes exactly one argument");
    Value out = object;
    for (const Value& other : given) {
      interpreter.charge(out.as_list().items.size());
      out = method->apply(out.as_list().items, hashable_items(interpreter, other));
    }
    return out;
  });
}

}  // namespace coxswain::chat
