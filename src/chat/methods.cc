// Methods of lists and mappings, and the look-up of all methods. What would change a list or
// mapping is refused, as the reference's sandbox does.

#include "chat/methods.h"

#include <algorithm>

#include "chat/interpreter.h"
#include "chat/sets.h"

namespace coxswain::chat {
namespace {

using Args = Arguments;

Value list_method(const Value& list, std::string_view name) {
  const ListKind kind = list.as_list().kind;
  if (is_set_like(list)) return find_set_method(list, name);
  if (kind == ListKind::kGenerator || kind == ListKind::kDictView) return Value();
  if (name == "index") {
    return make_callable([list](Interpreter&, const Args& args) {
      const auto& items = list.as_list().items;
      const auto it =
          args.positional.empty() ? items.end() : std::ranges::find(items, args.positional[0]);
      if (it == items.end()) fail("the value is not in the list");
      return Value::integer(it - items.begin());
    });
  }
  if (name == "count") {
    return make_callable([list](Interpreter&, const Args& args) {
      if (args.positional.size() != 1) fail("count() takes exactly one argument");
      return Value::integer(std::ranges::count(list.as_list().items, args.positional[0]));
    });
  }
  if (name == "copy" && kind == ListKind::kList)
    return make_callable([list](Interpreter&, const Args&) { return list; });
  return Value();
}

Value dict_view(const Value& dict, std::string_view name) {
  std::vector<Value> items;
  items.reserve(dict.as_dict().size());
  for (const auto& [key, value] : dict.as_dict().items()) {
    items.push_back(name == "keys" ? key : name == "values" ? value : Value::tuple({key, value}));
  }
  return Value::dict_view(std::move(items),
                          name == "keys"     ? "dict_keys"
                          : name == "values" ? "dict_values"
                                             : "dict_items");
}

Value dict_method(const Value& dict, std::string_view name) {
  if (name == "get") {
    return make_callable([dict](Interpreter&, const Args& args) {
      if (!args.named.empty()) fail("dict.get() takes no keyword arguments");
      if (args.positional.empty()) fail("get expected at least 1 argument, got 0");
      if (!is_hashable(args.positional[0]))
        fail("unhashable type: '" + type_name(args.positional[0]) + "'");
      const Value* value = dict.as_dict().find(args.positional[0]);
      return value != nullptr ? *value : args.get_or(1, "default", Value::none());
    });
  }
  if (name == "items" || name == "keys" || name == "values") {
    return make_callable([dict, kind = std::string(name)](Interpreter& interpreter, const Args&) {
      interpreter.charge(dict.as_dict().size());
      return dict_view(dict, kind);
    });
  }
  if (name == "copy") return make_callable([dict](Interpreter&, const Args&) { return dict; });
  return Value();
}

constexpr std::string_view kDictReaders[] = {"get", "items", "keys", "values", "copy"};
constexpr std::string_view kListMutators[] = {
    "append", "extend", "insert", "remove", "reverse", "sort", "pop", "clear"};
constexpr std::string_view kSetMutators[] = {"add",
                                             "clear",
                                             "difference_update",
                                             "discard",
                                             "pop",
                                             "remove",
                                             "symmetric_difference_update",
                                             "update"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

}  // namespace

Value find_method(const Value& object, std::string_view name) {
  if (object.is_string()) return find_text_method(object, name);
  if (object.is_list()) return list_method(object, name);
  if (object.is_number()) return find_number_method(object, name);
  return object.is_dict() ? dict_method(object, name) : Value();
}

bool is_dict_method(std::string_view name) {
  return std::ranges::find(kDictReaders, name) != std::end(kDictReaders) ||
         std::ranges::find(kDictMutators, name) != std::end(kDictMutators);
}

bool is_mutating_method(const Value& object, std::string_view name) {
  if (object.is_list() && object.as_list().kind == ListKind::kSet)
    return std::ranges::find(kSetMutators, name) != std::end(kSetMutators);
  if (object.is_list()) return std::ranges::find(kListMutators, name) != std::end(kListMutators);
  return object.is_dict() && std::ranges::find(kDictMutators, name) != std::end(kDictMutators);
}

}  // namespace coxswain::chat
