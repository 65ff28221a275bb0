// Macros, calls of them, and call blocks.

#include <algorithm>
#include <utility>

#include "chat/interpreter_guards.h"
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

// Checks the named arguments of a call; returns those that are no parameters.
Dict Interpreter::extra_arguments(const MacroDefinition& macro, const Arguments& arguments) {
  Dict extra;
  const std::vector<std::string>& parameters = macro.parameter_texts;
  const std::size_t n_given = std::min(parameters.size(), arguments.positional.size());
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::ranges::find(parameters, name);
    if (parameter != parameters.end()) {
      if (static_cast<std::size_t>(parameter - parameters.begin()) < n_given)
        fail("macro '" + macro.text + "' takes no keyword argument '" + name + "'");
    } else if (name == "caller" && macro.uses_caller) {
      set_variable(program_.known.caller, value);
    } else if (macro.uses_kwargs) {
      extra.set(Value::string(name), value);
    } else {
      fail("macro '" + macro.text + "' takes no keyword argument '" + name.substr(0, 64) + "'");
    }
  }
  return extra;
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
  const std::size_t n_given = arguments.positional.size();
  if (n_given > n && !macro.uses_varargs)
    fail("macro '" + macro.text + "' takes not more than " + std::to_string(n) + " argument(s)");
  Text out;
  Text* outer_output = std::exchange(output_, &out);
  const ScopeGuard guard(*this, scope);
  Dict extra = extra_arguments(macro, arguments);
  bind_parameters(macro, arguments);
  if (macro.uses_varargs) {
    const auto begin =
        arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n, n_given));
    set_variable(program_.known.varargs, Value::tuple({begin, arguments.positional.end()}));
  }
  if (macro.uses_kwargs) set_variable(program_.known.kwargs, Value::dict(std::move(extra)));
  execute(macro.body);
  output_ = outer_output;
  out.safe = autoescapes_;
  return Value::string(std::move(out));
}

}  // namespace coxswain::chat
