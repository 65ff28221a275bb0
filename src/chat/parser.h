#pragma once
// Parser: tokens to a Program. Recursive descent over Jinja's grammar (the precedence of ~,
// filters, tests and conditionals is the reference's); every recursion and the height of every
// expression count against a depth limit.
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

// The filter or test of that name; nullptr if there is none. Unknown names are refused when a
// template is compiled.
const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);

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
  std::unique_ptr<Stmt> parse_block();
  std::unique_ptr<Stmt> parse_autoescape();
  std::unique_ptr<Stmt> parse_refused(const std::string& tag);
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
  [[noreturn]] void too_deep() const;
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
  Escaping escaping_ = Escaping::kOff;
  std::size_t loops_ = 0;  // loops around the current place, within the innermost macro
  std::vector<MacroDefinition*> macros_;
  std::unordered_set<std::string> blocks_;
  Program program_;
};

}  // namespace coxswain::chat
