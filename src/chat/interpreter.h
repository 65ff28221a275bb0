#pragma once
// Interpreter: runs one program once, within its budgets.
//
// Every evaluated node and every element a filter touches is a step, as are 64 bytes of a text that is read or
// made; every byte of text that is made counts as output. Scopes follow Jinja: loops, macros, with and call blocks
// have their own, `if` has none; a loop starts each turn with a fresh one.
//
// Thread rule: one thread for each run; programs may be shared.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/ast.h"
#include "chat/callable.h"
#include "chat/chat_template.h"

namespace coxswain::chat {

struct Scope {
  std::vector<std::pair<NameId, Value>> variables;
  Scope* parent = nullptr;
  bool captured = false;  // a macro refers to it: it lives until the end of the render
};

class Interpreter {
 public:
  Interpreter(const Program& program, const RenderLimits& limits, const RenderInput& input);

  // In the current scope. kNoName, which the program does not mention, is not stored.
  void set_variable(NameId name, Value value);
  Text run();

  Value evaluate(const Expr& expr);
  void charge(std::size_t steps) {
    if (steps > limits_.steps_max - steps_) fail_steps();
    steps_ += steps;
  }
  // Steps for n * m elements. Throws before anything is allocated.
  void charge_product(std::size_t n, std::size_t m);
  // iterate(), with a step for each item, counted before any is made.
  std::vector<Value> items(const Value& value);
  // Checks that n * m bytes of text stay within the output budget, and counts them as steps too (a step per 64 bytes).
  void reserve_output(std::size_t n, std::size_t m);
  // The same for a text that has grown from `before` to `now` bytes: what was there is paid for.
  void grow_output(std::size_t before, std::size_t now);

  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const MacroDefinition& macro, Scope* scope, const Arguments& arguments);
  // A nested run of a recursive loop; returns its text.
  Value run_recursive_loop(const Stmt& loop, Scope* scope, const Value& items, std::size_t depth);

  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  std::chrono::system_clock::time_point now() const { return now_; }
  std::size_t recursion_max() const { return limits_.recursion_max; }
  std::size_t output_bytes_max() const { return limits_.output_bytes_max; }

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };
  class ScopeGuard;
  class RecursionGuard;
  class DepthGuard;

  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  Flow execute_if(const Stmt& stmt);
  void execute_for(const Stmt& stmt);
  void execute_with(const Stmt& stmt);
  Value make_macro(const std::shared_ptr<MacroDefinition>& definition);
  void check_named_arguments(const MacroDefinition& macro, const Arguments& arguments);
  void bind_parameters(const MacroDefinition& macro, const Arguments& arguments);
  void execute_call_block(const Stmt& stmt);
  void execute_filter_block(const Stmt& stmt);
  void execute_set_block(const Stmt& stmt);
  void print(const Stmt& stmt);
  void print_sum(const Expr& sum);
  void run_loop(const Stmt& stmt, const Value& items, std::size_t depth);
  Value loop_items(const Stmt& stmt, Value iterable);
  Text capture(const Body& body);

  // The value of `expr`, which stays where it is if it is a variable, a constant or a member of one;
  // otherwise it is put into `scratch`. REQUIRES: used before anything else is evaluated but other places,
  // whose look-up changes nothing.
  const Value& resolve(const Expr& expr, Value& scratch);
  const Value& resolve_member(const Expr& expr, Value& scratch);
  bool is_true(const Expr& expr);
  Value evaluate_operator(const Expr& expr);
  // Adds the children of `sum` up. Empty as long as all are texts: then `text` is the sum.
  std::optional<Value> evaluate_sum(const Expr& sum, Text& text);
  Value evaluate_test(const Expr& expr);
  Value evaluate_filter(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_call(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  // The chain of filters whose innermost input is `input`.
  Value apply_filters(const Expr& filter, const Value& input);
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& exprs);
  Arguments evaluate_arguments(const CallArguments& arguments);
  // nullptr if it is not set.
  const Value* find_variable(NameId name);
  Value look_up(NameId name);
  void charge_comparison(Operator op, const Value& left, const Value& right);
  [[noreturn]] void fail_steps() const;
  void assign(const Target& target, const Value& value);
  void assign_name(NameId name, Value value);
  void emit(const Text& text);
  Scope* new_scope(Scope* parent);
  void release_scope(Scope* scope);

  const Program& program_;
  RenderLimits limits_;
  std::chrono::system_clock::time_point now_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* scope_ = nullptr;
  Text* output_ = nullptr;
  Text spare_text_;  // empty; keeps the memory of the last sum that was printed
  std::size_t steps_ = 0;
  std::size_t recursion_ = 0;
  std::size_t depth_ = 0;  // nodes and statements that are being evaluated
};

}  // namespace coxswain::chat
