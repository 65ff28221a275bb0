// The interpreter's budgets, scopes and statements. Loops and macros stand in interpreter_loop.cc.

#include "chat/interpreter.h"

#include <algorithm>
#include <utility>

#include "chat/builtins.h"
#include "chat/interpreter_guards.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

constexpr std::size_t kPromptBytesReserved = 1024;
constexpr std::size_t kVariablesReserved = 8;

}  // namespace

const Value* Arguments::find_named(std::string_view name) const {
  const auto it = std::ranges::find_if(named, [&](const auto& pair) { return pair.first == name; });
  return it == named.end() ? nullptr : &it->second;
}

const Value* Arguments::get(std::size_t index, std::string_view name) const {
  return index < positional.size() ? &positional[index] : find_named(name);
}

Value Arguments::get_or(std::size_t index,
                        std::string_view name,
                        const Value& default_value) const {
  const Value* value = get(index, name);
  return value == nullptr ? default_value : *value;
}

Interpreter::Interpreter(const Program& program,
                         const RenderLimits& limits,
                         const RenderInput& input)
    : program_(program), limits_(limits), now_(input.now) {
  scope_ = new_scope(nullptr);
  scope_->captured = true;
}

void Interpreter::set_variable(NameId name, Value value) {
  if (name != kNoName) assign_name(name, std::move(value));
}

Text Interpreter::run() {
  Text out;
  out.bytes.reserve(kPromptBytesReserved);
  output_ = &out;
  // Variables of the template live below those given to it, so that a render never changes its input.
  const ScopeGuard guard(*this, scope_);
  scope_->captured = true;
  execute(program_.body);
  return out;
}

void Interpreter::fail_steps() const {
  fail("the template takes more than " + std::to_string(limits_.steps_max) + " steps");
}

void Interpreter::charge_product(std::size_t n, std::size_t m) {
  std::size_t product = 0;
  charge(__builtin_mul_overflow(n, m, &product) ? limits_.steps_max + 1 : product);
}

std::vector<Value> Interpreter::items(const Value& value) {
  if (value.is_string()) charge(base::count_characters(value.as_bytes()));
  if (value.is_dict()) charge(value.as_dict().size());
  if (value.is_list()) charge(value.as_list().items.size() - value.as_list().n_taken);
  return iterate(value);
}

void Interpreter::reserve_output(std::size_t n, std::size_t m) {
  std::size_t product = 0;
  const bool overflows = __builtin_mul_overflow(n, m, &product);
  require_output(overflows ? static_cast<std::size_t>(-1) : product, limits_.output_bytes_max);
  charge(product / 64);
}

void Interpreter::grow_output(std::size_t before, std::size_t now) {
  require_output(now, limits_.output_bytes_max);
  charge((now - before) / 64);
}

void Interpreter::emit(const Text& text) {
  if (output_->bytes.size() + text.bytes.size() > limits_.output_bytes_max) {
    fail("the template writes more than " + std::to_string(limits_.output_bytes_max) + " bytes");
  }
  output_->append(text);
}

Scope* Interpreter::new_scope(Scope* parent) {
  if (free_scopes_.empty()) {
    scopes_.push_back(std::make_unique<Scope>());
    scopes_.back()->variables.reserve(kVariablesReserved);
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

const Value* Interpreter::find_variable(NameId name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    charge(scope->variables.size() / 64);
    for (const auto& [id, value] : scope->variables) {
      if (id == name) return &value;
    }
  }
  return nullptr;
}

Value Interpreter::look_up(NameId name) {
  if (const Value* value = find_variable(name)) return *value;
  Value function = find_function(program_.names[name]);
  if (!function.is_undefined()) return function;
  return Value::undefined("'" + program_.names[name] + "' is undefined");
}

void Interpreter::assign_name(NameId name, Value value) {
  charge(scope_->variables.size() / 64);
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
  const std::vector<Value> parts = items(value);
  const std::size_t n = target.items.size();
  if (parts.size() > n) fail("too many values to unpack (expected " + std::to_string(n) + ")");
  if (parts.size() < n)
    fail("not enough values to unpack (expected " + std::to_string(n) + ", got " +
         std::to_string(parts.size()) + ")");
  for (std::size_t i = 0; i < n; ++i) assign(target.items[i], parts[i]);
}

// ---- statements

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& stmt : body) {
    if (const Flow flow = execute(*stmt); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  const DepthGuard depth(*this);
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
      execute_set_block(stmt);
      break;
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
    case StmtKind::kScope: {
      const ScopeGuard guard(*this, scope_);
      return execute(stmt.body);
    }
  }
  return Flow::kNext;
}

void Interpreter::print(const Stmt& stmt) {
  if (stmt.expr->kind == ExprKind::kSum) {
    print_sum(*stmt.expr);
    return;
  }
  Value scratch;
  const Value& value = resolve(*stmt.expr, scratch);
  value.is_string() ? emit(value.as_text()) : emit(to_text(value));
}

void Interpreter::print_sum(const Expr& sum) {
  Text text = std::exchange(spare_text_, {});
  if (const auto value = evaluate_sum(sum, text)) {
    emit(to_text(*value));
    return;
  }
  emit(text);
  text.bytes.clear();
  text.marks.clear();
  text.safe = false;
  spare_text_ = std::move(text);
}

void Interpreter::execute_set_block(const Stmt& stmt) {
  const Value text = Value::string(capture(stmt.body));
  assign(stmt.target, stmt.filter ? apply_filters(*stmt.filter, text) : text);
}

void Interpreter::execute_filter_block(const Stmt& stmt) {
  const Value value = apply_filters(*stmt.filter, Value::string(capture(stmt.body)));
  if (!value.is_string()) fail("a filter block gives a text, not " + type_name(value));
  emit(value.as_text());
}

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt) {
  for (const auto& [condition, body] : stmt.branches) {
    if (!condition || is_true(*condition)) return execute(body);
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
