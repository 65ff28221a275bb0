// The interpreter's scopes, statements, loops and macros. Expressions: interpreter_expression.cc.

#include "chat/interpreter.h"

#include <algorithm>
#include <utility>

#include "chat/html.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

class MacroCallable : public Callable {
 public:
  MacroCallable(std::shared_ptr<const MacroDefinition> macro, Scope* scope)
      : macro_(std::move(macro)), scope_(scope) {}
  Value call(Interpreter& interpreter, const Arguments& arguments) const override {
    return interpreter.call_macro(*macro_, scope_, arguments);
  }
  Value attribute(Interpreter&, std::string_view name) const override {
    if (name == "name") return Value::string(macro_->text);
    if (name == "catch_kwargs") return Value::boolean(macro_->uses_kwargs);
    if (name == "catch_varargs") return Value::boolean(macro_->uses_varargs);
    if (name == "caller") return Value::boolean(macro_->uses_caller);
    if (name != "arguments") return Value();
    std::vector<Value> parameters;
    for (const std::string& text : macro_->parameter_texts)
      parameters.push_back(Value::string(text));
    return Value::tuple(std::move(parameters));
  }
  bool is_macro() const override { return true; }

 private:
  std::shared_ptr<const MacroDefinition> macro_;
  Scope* scope_;
};

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

const Value* Arguments::find_named(std::string_view name) const {
  const auto it = std::ranges::find_if(named, [&](const auto& pair) { return pair.first == name; });
  return it == named.end() ? nullptr : &it->second;
}

const Value* Arguments::get(std::size_t index, std::string_view name) const {
  return index < positional.size() ? &positional[index] : find_named(name);
}

Value Arguments::get_or(std::size_t index, std::string_view name, const Value& otherwise) const {
  const Value* value = get(index, name);
  return value == nullptr ? otherwise : *value;
}

// Enters a new scope below `parent`, and leaves it on every path.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter),
        outer_(interpreter.scope_),
        scope_(interpreter.new_scope(parent)) {
    interpreter_.scope_ = scope_;
  }
  ~ScopeGuard() {
    interpreter_.scope_ = outer_;
    interpreter_.release_scope(scope_);
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* outer_;
  Scope* scope_;
};

class Interpreter::RecursionGuard {
 public:
  explicit RecursionGuard(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.recursion_ > interpreter_.limits_.recursion_max) {
      fail("the template recurses deeper than " +
           std::to_string(interpreter_.limits_.recursion_max));
    }
  }
  ~RecursionGuard() { --interpreter_.recursion_; }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;

 private:
  Interpreter& interpreter_;
};

Interpreter::Interpreter(const Program& program,
                         const RenderLimits& limits,
                         const RenderInput& input)
    : program_(program), limits_(limits), now_(input.now), random_state_(input.random_seed) {
  scope_ = new_scope(nullptr);
  scope_->captured = true;
}

void Interpreter::set_global(std::string_view name, Value value) {
  const auto it = std::ranges::find(program_.names, name);
  if (it != program_.names.end())
    assign_name(static_cast<NameId>(it - program_.names.begin()), std::move(value));
}

Text Interpreter::run() {
  Text out;
  output_ = &out;
  // Variables of the template live below those given to it, so that a render never changes its
  // input.
  const ScopeGuard guard(*this, scope_);
  scope_->captured = true;
  top_scope_ = scope_;
  execute(program_.body);
  return out;
}

void Interpreter::charge(std::size_t steps) {
  if (steps > limits_.steps_max - steps_)
    fail("the template takes more than " + std::to_string(limits_.steps_max) + " steps");
  steps_ += steps;
}

void Interpreter::charge_product(std::size_t n, std::size_t m) {
  std::size_t product = 0;
  charge(__builtin_mul_overflow(n, m, &product) ? limits_.steps_max + 1 : product);
}

void Interpreter::reserve_output(std::size_t n, std::size_t m) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(n, m, &product) || product > limits_.output_bytes_max) {
    fail("the template makes a text of more than " + std::to_string(limits_.output_bytes_max) +
         " bytes");
  }
  charge(product / 64);
}

void Interpreter::emit(const Text& text) {
  if (output_->bytes.size() + text.bytes.size() > limits_.output_bytes_max) {
    fail("the template writes more than " + std::to_string(limits_.output_bytes_max) + " bytes");
  }
  output_->append(text);
}

// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
std::size_t Interpreter::random_below(std::size_t n) {
  random_state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t x = random_state_;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<std::size_t>((x ^ (x >> 31)) % n);
}

Scope* Interpreter::new_scope(Scope* parent) {
  if (free_scopes_.empty()) {
    scopes_.push_back(std::make_unique<Scope>());
    free_scopes_.push_back(scopes_.back().get());
  }
  Scope* scope = free_scopes_.back();
  free_scopes_.pop_back();
  scope->parent = parent;
  return scope;
}

void Interpreter::release_scope(Scope* scope) {
  if (scope->captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

Value Interpreter::look_up(NameId name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [id, value] : scope->variables) {
      if (id == name) return value;
    }
  }
  Value function = global_function(program_.names[name]);
  if (!function.is_undefined()) return function;
  return Value::undefined("'" + program_.names[name] + "' is undefined");
}

void Interpreter::assign_name(NameId name, Value value) {
  for (auto& [id, existing] : scope_->variables) {
    if (id == name) {
      existing = std::move(value);
      return;
    }
  }
  scope_->variables.emplace_back(name, std::move(value));
}

void Interpreter::assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kName:
      assign_name(target.name, value);
      return;
    case Target::Kind::kAttribute: {
      const Value object = look_up(target.name);
      if (object.kind() != Value::Kind::kNamespace)
        fail("cannot assign attribute on non-namespace object");
      // A namespace that reaches itself would never be freed.
      if (value.extent().holds_namespace) fail("a namespace cannot hold a namespace or function");
      object.as_namespace().attributes.set(Value::string(target.attribute), value);
      return;
    }
    case Target::Kind::kTuple:
      break;
  }
  require_defined(value);
  const std::vector<Value> items = iterate(value);
  if (items.size() != target.items.size()) {
    fail(items.size() > target.items.size()
             ? "too many values to unpack (expected " + std::to_string(target.items.size()) + ")"
             : "not enough values to unpack (expected " + std::to_string(target.items.size()) +
                   ", got " + std::to_string(items.size()) + ")");
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i]);
}

// ---- statements

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& stmt : body) {
    if (const Flow flow = execute(*stmt); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  charge(1);
  switch (stmt.kind) {
    case StmtKind::kText:
      emit(stmt.text);
      break;
    case StmtKind::kPrint:
      print(stmt);
      break;
    case StmtKind::kIf:
      return execute_if(stmt);
    case StmtKind::kFor:
      execute_for(stmt);
      break;
    case StmtKind::kSet:
      assign(stmt.target, evaluate(*stmt.expr));
      break;
    case StmtKind::kSetBlock:
      return execute_set_block(stmt);
    case StmtKind::kMacro:
      scope_->captured = true;
      assign_name(stmt.macro->name,
                  Value::callable(std::make_shared<MacroCallable>(stmt.macro, scope_)));
      break;
    case StmtKind::kCallBlock:
      execute_call_block(stmt);
      break;
    case StmtKind::kFilterBlock:
      execute_filter_block(stmt);
      break;
    case StmtKind::kWith:
      execute_with(stmt);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kScope:
      return execute_scope(stmt.body, scope_);
    case StmtKind::kBlock:
      return execute_scope(stmt.body, top_scope_);
    case StmtKind::kAutoescape:
      return execute_autoescape(stmt);
    case StmtKind::kRefused:
      fail(stmt.text.bytes);
  }
  return Flow::kNext;
}

void Interpreter::print(const Stmt& stmt) {
  const Value value = evaluate(*stmt.expr);
  if (!escapes(stmt.escaping)) {
    emit(value.is_string() ? value.as_text() : to_text(value));
    return;
  }
  const Text text = to_text(value);
  emit(text.safe ? text : escape_html(text));
}

Interpreter::Flow Interpreter::execute_set_block(const Stmt& stmt) {
  Text text = capture(stmt.body);
  text.safe = stmt.filter ? escapes(stmt.escaping) : autoescapes_;
  Value value = Value::string(std::move(text));
  if (stmt.filter) {
    value = apply_filters(*stmt.filter, value);
    if (autoescapes_) {
      Text filtered = to_text(value);
      filtered.safe = true;
      value = Value::string(std::move(filtered));
    }
  }
  assign(stmt.target, value);
  return Flow::kNext;
}

void Interpreter::execute_filter_block(const Stmt& stmt) {
  Text text = capture(stmt.body);
  text.safe = escapes(stmt.escaping);
  const Value value = apply_filters(*stmt.filter, Value::string(std::move(text)));
  if (!value.is_string()) fail("a filter block gives a text, not " + type_name(value));
  emit(value.as_text());
}

Interpreter::Flow Interpreter::execute_scope(const Body& body, Scope* parent) {
  const ScopeGuard guard(*this, parent);
  return execute(body);
}

Interpreter::Flow Interpreter::execute_autoescape(const Stmt& stmt) {
  const ScopeGuard guard(*this, scope_);
  const bool outer = std::exchange(autoescapes_, evaluate(*stmt.expr).truthy());
  const Flow flow = execute(stmt.body);
  autoescapes_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt) {
  for (const auto& [condition, body] : stmt.branches) {
    if (!condition || evaluate(*condition).truthy()) return execute(body);
  }
  return Flow::kNext;
}

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

void Interpreter::execute_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.bindings) values.push_back(evaluate(*expr));
  const ScopeGuard guard(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(stmt.bindings[i].first, values[i]);
  execute(stmt.body);
}

void Interpreter::execute_call_block(const Stmt& stmt) {
  scope_->captured = true;
  const Value callee = evaluate(*stmt.expr->children[0]);
  Arguments arguments = evaluate_arguments(stmt.expr->arguments);
  arguments.named.emplace_back(
      "caller", Value::callable(std::make_shared<MacroCallable>(stmt.macro, scope_)));
  const Value value = call(callee, arguments);
  if (!value.is_string()) fail("a call block gives a text, not " + type_name(value));
  emit(value.as_text());
}

Text Interpreter::capture(const Body& body) {
  Text out;
  Text* outer = std::exchange(output_, &out);
  const ScopeGuard guard(*this, scope_);
  execute(body);
  output_ = outer;
  return out;
}

Value Interpreter::call_macro(const MacroDefinition& macro,
                              Scope* scope,
                              const Arguments& arguments) {
  const RecursionGuard recursion(*this);
  const std::size_t n = macro.parameters.size();
  if (arguments.positional.size() > n && !macro.uses_varargs) {
    fail("macro '" + macro.text + "' takes not more than " + std::to_string(n) + " argument(s)");
  }
  Text out;
  Text* outer_output = std::exchange(output_, &out);
  const ScopeGuard guard(*this, scope);
  Dict rest;
  for (const auto& [name, value] : arguments.named) {
    const bool is_parameter =
        std::ranges::find(macro.parameter_texts, name) != macro.parameter_texts.end();
    const auto n_given = static_cast<std::ptrdiff_t>(std::min(n, arguments.positional.size()));
    if (is_parameter &&
        std::find(macro.parameter_texts.begin(), macro.parameter_texts.begin() + n_given, name) !=
            macro.parameter_texts.begin() + n_given)
      fail("macro '" + macro.text + "' takes no keyword argument '" + name + "'");
    if (is_parameter) continue;
    if (name == "caller" && macro.uses_caller) {
      set_global("caller", value);
    } else if (macro.uses_kwargs) {
      rest.set(Value::string(name), value);
    } else {
      fail("macro '" + macro.text + "' takes no keyword argument '" + name.substr(0, 64) + "'");
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (const Value* given = arguments.get(i, macro.parameter_texts[i])) {
      assign_name(macro.parameters[i], *given);
    } else if (const std::size_t first_default = n - macro.defaults.size(); i >= first_default) {
      assign_name(macro.parameters[i], evaluate(*macro.defaults[i - first_default]));
    } else {
      assign_name(
          macro.parameters[i],
          Value::undefined("parameter '" + macro.parameter_texts[i] + "' was not provided"));
    }
  }
  if (macro.uses_varargs) {
    const auto begin = arguments.positional.begin() +
                       static_cast<std::ptrdiff_t>(std::min(n, arguments.positional.size()));
    set_global("varargs", Value::tuple({begin, arguments.positional.end()}));
  }
  if (macro.uses_kwargs) set_global("kwargs", Value::dict(std::move(rest)));
  execute(macro.body);
  output_ = outer_output;
  out.safe = autoescapes_;
  return Value::string(std::move(out));
}

}  // namespace coxswain::chat
