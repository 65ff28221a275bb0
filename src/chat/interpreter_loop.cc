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
  LoopObject(const Stmt& stmt, Scope* scope, std::vector<Value> items, std::size_t depth)
      : stmt_(stmt), scope_(scope), items_(std::move(items)), depth_(depth) {}

  const std::vector<Value>& items() const { return items_; }
  void set_index(std::size_t index) { index_ = index; }

  Value call(Interpreter& interpreter, const Arguments& arguments) const override {
    if (!stmt_.recursive) fail("the loop is not recursive");
    if (arguments.positional.size() != 1) fail("loop() takes one argument");
    return interpreter.run_recursive_loop(stmt_, scope_, arguments.positional[0], depth_ + 1);
  }

  Value attribute(Interpreter&, std::string_view name) const override {
    const auto number = [](std::size_t n) { return Value::integer(static_cast<std::int64_t>(n)); };
    const std::size_t n = items_.size();
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
      return index_ == 0 ? Value::undefined("there is no previous item") : items_[index_ - 1];
    if (name == "nextitem")
      return index_ + 1 == n ? Value::undefined("there is no next item") : items_[index_ + 1];
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
    return make_callable([last = last_](Interpreter&, const Arguments& arguments) {
      const bool differs = !last->has_value() || !(**last == arguments.positional);
      *last = arguments.positional;
      return Value::boolean(differs);
    });
  }

  const Stmt& stmt_;
  Scope* scope_;
  std::vector<Value> items_;
  std::size_t depth_;
  std::size_t index_ = 0;
  std::shared_ptr<std::optional<std::vector<Value>>> last_ =
      std::make_shared<std::optional<std::vector<Value>>>();
};

}  // namespace

std::vector<Value> Interpreter::loop_items(const Stmt& stmt, const Value& iterable) {
  std::vector<Value> items = iterate(iterable);
  charge(items.size());
  if (!stmt.filter) return items;
  std::vector<Value> kept;
  for (Value& value : items) {
    const ScopeGuard guard(*this, scope_);
    assign(stmt.target, value);
    if (evaluate(*stmt.filter).truthy()) kept.push_back(std::move(value));
  }
  return kept;
}

void Interpreter::execute_for(const Stmt& stmt) {
  run_loop(stmt, loop_items(stmt, evaluate(*stmt.expr)), 0);
}

void Interpreter::run_loop(const Stmt& stmt, std::vector<Value> items, std::size_t depth) {
  static constexpr std::string_view kLoop = "loop";
  const auto name = std::ranges::find(program_.names, kLoop);
  const bool uses_loop = name != program_.names.end();
  Scope* outer = scope_;
  if (stmt.recursive) outer->captured = true;
  bool has_run = false;  // to its end, once: a turn left by break or continue does not count
  const auto loop = std::make_shared<LoopObject>(stmt, outer, std::move(items), depth);
  for (std::size_t i = 0; i < loop->items().size(); ++i) {
    const ScopeGuard guard(*this, outer);
    loop->set_index(i);
    if (uses_loop)
      assign_name(static_cast<NameId>(name - program_.names.begin()), Value::callable(loop));
    assign(stmt.target, loop->items()[i]);
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
