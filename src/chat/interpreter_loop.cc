// Loops and the variable `loop`.

#include <algorithm>
#include <optional>
#include <utility>

#include "chat/interpreter_guards.h"

namespace coxswain::chat {
namespace {

// The variable `loop`. Its position moves while the loop runs.
class LoopObject : public Callable {
 public:
  // `items`: a list.
  LoopObject(const Stmt& stmt, Scope* scope, Value items, std::size_t depth)
      : stmt_(stmt), scope_(scope), list_(std::move(items)), depth_(depth) {}

  void set_index(std::size_t index) { index_ = index; }

  Value call(Interpreter& interpreter, const Arguments& arguments) const override {
    if (!stmt_.recursive) fail("the loop is not recursive");
    if (arguments.positional.size() != 1) fail("loop() takes one argument");
    return interpreter.run_recursive_loop(stmt_, scope_, arguments.positional[0], depth_ + 1);
  }

  Value attribute(Interpreter&, std::string_view name) const override {
    const auto number = [](std::size_t n) { return Value::integer(static_cast<std::int64_t>(n)); };
    const std::vector<Value>& items = list_.as_list().items;
    const std::size_t n = items.size();
    if (name == "index") return number(index_ + 1);
    if (name == "index0") return number(index_);
    if (name == "revindex") return number(n - index_);
    if (name == "revindex0") return number(n - index_ - 1);
    if (name == "first") return Value::boolean(index_ == 0);
    if (name == "last") return Value::boolean(index_ + 1 == n);
    if (name == "length") return number(n);
    if (name == "depth") return number(depth_ + 1);
    if (name == "depth0") return number(depth_);
    if (name == "previtem")
      return index_ == 0 ? Value::undefined("there is no previous item") : items[index_ - 1];
    if (name == "nextitem")
      return index_ + 1 == n ? Value::undefined("there is no next item") : items[index_ + 1];
    if (name == "cycle") return cycle();
    if (name == "changed") return changed();
    return Value();
  }

 private:
  Value cycle() const {
    return make_callable([index = index_](Interpreter&, const Arguments& arguments) {
      if (arguments.positional.empty()) fail("no items for cycling given");
      return arguments.positional[index % arguments.positional.size()];
    });
  }
  Value changed() const {
    if (!last_) last_ = std::make_shared<std::optional<std::vector<Value>>>();
    return make_callable([last = last_](Interpreter&, const Arguments& arguments) {
      const bool differs = !last->has_value() || !(**last == arguments.positional);
      *last = arguments.positional;
      return Value::boolean(differs);
    });
  }

  const Stmt& stmt_;
  Scope* scope_;
  Value list_;
  std::size_t depth_;
  std::size_t index_ = 0;
  mutable std::shared_ptr<std::optional<std::vector<Value>>> last_;  // what changed() saw
};

}  // namespace

// What the loop runs over, as a list.
Value Interpreter::loop_items(const Stmt& stmt, Value iterable) {
  const bool is_list = iterable.is_list() && !is_generator(iterable);
  if (is_list) charge(iterable.as_list().items.size());
  Value list = is_list ? std::move(iterable) : Value::list(items(iterable));
  if (!stmt.filter) return list;
  std::vector<Value> kept;
  for (const Value& value : list.as_list().items) {
    const ScopeGuard guard(*this, scope_);
    assign(stmt.target, value);
    if (is_true(*stmt.filter)) kept.push_back(value);
  }
  return Value::list(std::move(kept));
}

void Interpreter::execute_for(const Stmt& stmt) {
  run_loop(stmt, loop_items(stmt, evaluate(*stmt.expr)), 0);
}

void Interpreter::run_loop(const Stmt& stmt, const Value& items, std::size_t depth) {
  Scope* outer = scope_;
  if (stmt.recursive) outer->captured = true;
  const bool uses_loop = program_.known.loop != kNoName;
  const auto loop = uses_loop ? std::make_shared<LoopObject>(stmt, outer, items, depth) : nullptr;
  bool has_run = false;  // to its end, once: a turn left by break or continue does not count
  const std::vector<Value>& values = items.as_list().items;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ScopeGuard guard(*this, outer);
    if (uses_loop) {
      loop->set_index(i);
      assign_name(program_.known.loop, Value::callable(loop));
    }
    assign(stmt.target, values[i]);
    const Flow flow = execute(stmt.body);
    has_run = has_run || flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (!has_run) execute(stmt.otherwise);
}

Value Interpreter::run_recursive_loop(const Stmt& loop,
                                      Scope* scope,
                                      const Value& items,
                                      std::size_t depth) {
  const RecursionGuard recursion(*this);
  Text out;
  Text* outer_output = std::exchange(output_, &out);
  Scope* outer_scope = std::exchange(scope_, scope);
  run_loop(loop, loop_items(loop, items), depth);
  scope_ = outer_scope;
  output_ = outer_output;
  out.safe = escapes(loop.escaping);
  return Value::string(std::move(out));
}

}  // namespace coxswain::chat
