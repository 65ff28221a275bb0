// Loops and the variable `loop`; macros, calls of them, and call blocks.

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

class MacroCallable : public Callable {
 public:
  MacroCallable(std::shared_ptr<const MacroDefinition> macro, Scope* scope)
      : macro_(std::move(macro)), scope_(scope) {}
  Value call(Interpreter& interpreter, const Arguments& arguments) const override {
    return interpreter.call_macro(*macro_, scope_, arguments);
  }
  bool is_macro() const override { return true; }

 private:
  std::shared_ptr<const MacroDefinition> macro_;
  Scope* scope_;
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
  if (!has_run) execute(stmt.else_body);
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
  return Value::string(std::move(out));
}

Value Interpreter::make_macro(const std::shared_ptr<MacroDefinition>& definition) {
  scope_->captured = true;
  return Value::callable(std::make_shared<MacroCallable>(definition, scope_));
}

void Interpreter::execute_call_block(const Stmt& stmt) {
  const Value callee = evaluate(*stmt.expr->children[0]);
  Arguments arguments = evaluate_arguments(stmt.expr->arguments);
  arguments.named.emplace_back("caller", make_macro(stmt.macro));
  const Value value = call(callee, arguments);
  if (!value.is_string()) fail("a call block gives a text, not " + type_name(value));
  emit(value.as_text());
}

// Refuses those that are no parameters; the caller of a call block becomes a variable.
void Interpreter::check_named_arguments(const MacroDefinition& macro, const Arguments& arguments) {
  const std::vector<std::string>& parameters = macro.parameter_texts;
  const std::size_t n_given = std::min(parameters.size(), arguments.positional.size());
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::ranges::find(parameters, name);
    if (parameter == parameters.end() && name == "caller" && macro.uses_caller) {
      set_variable(program_.known.caller, value);
    } else if (parameter == parameters.end() ||
               static_cast<std::size_t>(parameter - parameters.begin()) < n_given) {
      fail("macro '" + macro.text + "' takes no keyword argument '" + name.substr(0, 64) + "'");
    }
  }
}

void Interpreter::bind_parameters(const MacroDefinition& macro, const Arguments& arguments) {
  const std::size_t n = macro.parameters.size();
  const std::size_t first_default = n - macro.defaults.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::string& name = macro.parameter_texts[i];
    const Value* given = arguments.get(i, name);
    assign_name(macro.parameters[i],
                given != nullptr ? *given
                : i >= first_default
                    ? evaluate(*macro.defaults[i - first_default])
                    : Value::undefined("parameter '" + name + "' was not provided"));
  }
}

Value Interpreter::call_macro(const MacroDefinition& macro,
                              Scope* scope,
                              const Arguments& arguments) {
  const RecursionGuard recursion(*this);
  const std::size_t n = macro.parameters.size();
  charge_product(1 + n / 8, 1 + arguments.named.size() / 8);  // each name is looked for
  if (arguments.positional.size() > n)
    fail("macro '" + macro.text + "' takes not more than " + std::to_string(n) + " argument(s)");
  Text out;
  Text* outer_output = std::exchange(output_, &out);
  const ScopeGuard guard(*this, scope);
  check_named_arguments(macro, arguments);
  bind_parameters(macro, arguments);
  execute(macro.body);
  output_ = outer_output;
  return Value::string(std::move(out));
}

}  // namespace coxswain::chat
