// The interpreter's budgets, scopes and statements. Loops, macros and expressions have files of
// their own.

#include "chat/interpreter.h"

#include <algorithm>
#include <utility>

#include "chat/html.h"
#include "chat/interpreter_guards.h"
#include "chat/python_format.h"

namespace coxswain::chat {

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
      assign_name(stmt.macro->name, make_macro(stmt.macro));
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

void Interpreter::execute_with(const Stmt& stmt) {
  std::vector<Value> values;
  values.reserve(stmt.bindings.size());
  for (const auto& [target, expr] : stmt.bindings) values.push_back(evaluate(*expr));
  const ScopeGuard guard(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(stmt.bindings[i].first, values[i]);
  execute(stmt.body);
}

Text Interpreter::capture(const Body& body) {
  Text out;
  Text* outer = std::exchange(output_, &out);
  const ScopeGuard guard(*this, scope_);
  execute(body);
  output_ = outer;
  return out;
}

}  // namespace coxswain::chat
