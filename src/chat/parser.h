#pragma once
// Parser: tokens to a Program. Recursive descent over Jinja's grammar (the precedence of ~, filters, tests and
// conditionals is the reference's); every recursion and the height of every expression count against a depth limit.
//
// What this engine does not have is refused here, by name and line: tags, filters and tests (also those that map
// and select take by name), functions, methods and conversions of `%`. A function or method that the template
// defines itself, or asks for with `is defined`, is left to the run.
//
// Thread rule: pure function.

#include <cstddef>
#include <string_view>
#include <unordered_set>

#include "chat/ast.h"
#include "chat/lexer.h"

namespace coxswain::chat {

// Throws RenderError with line and reason.
Program parse_template(std::string_view source, std::size_t depth_max);

class Parser {
 public:
  Parser(std::vector<Token> tokens, std::size_t depth_max)
      : tokens_(std::move(tokens)), depth_max_(depth_max) {}
  Program run();

 private:
  // Statements (parser.cc)
  Body parse_until(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Stmt> parse_statement();
  std::unique_ptr<Stmt> parse_if();
  std::unique_ptr<Stmt> parse_for();
  std::unique_ptr<Stmt> parse_set();
  std::unique_ptr<Stmt> parse_macro();
  std::unique_ptr<Stmt> parse_call_block();
  std::unique_ptr<Stmt> parse_filter_block();
  std::unique_ptr<Stmt> parse_with();
  std::unique_ptr<Stmt> parse_generation();
  std::unique_ptr<Stmt> parse_jump(StmtKind kind);
  void parse_signature(MacroDefinition& macro);
  Target parse_target(bool with_tuple, bool with_attribute);
  Target parse_single_target(bool with_attribute);

  // Expressions (parser_expression.cc)
  ExprPtr parse_expression(bool with_conditional = true);
  ExprPtr parse_tuple(bool with_conditional,
                      bool explicit_parentheses,
                      std::string_view extra_end = {});
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_operand();
  struct Level;
  ExprPtr parse_infix(const Level& level);
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_primary();
  ExprPtr parse_name_or_keyword();
  ExprPtr parse_number();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_index();
  ExprPtr parse_filters(ExprPtr node, bool start_inline);
  ExprPtr parse_filter_expression(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  CallArguments parse_arguments();

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool at_operator(std::string_view text) const {
    return peek().kind == TokenKind::kOperator && peek().text == text;
  }
  bool at_name(std::string_view text) const {
    return peek().kind == TokenKind::kName && peek().text == text;
  }
  bool take_operator(std::string_view text);
  bool take_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();
  void expect_block_end();
  [[noreturn]] void error(const std::string& message) const;
  [[noreturn]] void refuse(std::string_view what, const std::string& name) const;
  [[noreturn]] void too_deep() const;
  const FilterEntry* known_filter(const std::string& name) const;
  const TestEntry* known_test(const std::string& name) const;
  void check_named_argument(const Expr& filter) const;
  void check_format(const std::string& format) const;
  void note_call(const Expr& callee);
  void check_calls() const;
  ExprPtr make(ExprKind kind) const;
  // What every node with children passes through once it has them: its height is checked.
  ExprPtr finish(ExprPtr node) const;
  // Adds a child to a finished node.
  void grow(Expr& node, ExprPtr child) const;
  void check_height(const Expr& node) const;
  std::unique_ptr<Stmt> make_stmt(StmtKind kind) const;

  // Counts one level of nesting for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.depth_max_) parser_.too_deep();
    }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  std::vector<Token> tokens_;
  std::size_t depth_max_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::size_t loops_ = 0;  // loops around the current place, within the innermost macro
  std::vector<MacroDefinition*> macros_;
  // What is called by its name: checked at the end, when it is known what the template itself defines.
  struct Call {
    std::string name;
    bool is_method = false;
    std::size_t line = 0;
  };
  std::vector<Call> calls_;
  // Variables assigned to, macros, parameters, and what `is defined` asks for.
  std::unordered_set<std::string> own_names_;
  // Attributes assigned to, named arguments, and what `is defined` asks for.
  std::unordered_set<std::string> own_members_;
  Program program_;
};

}  // namespace coxswain::chat
