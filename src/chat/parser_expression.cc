// Expressions, from the loosest to the tightest binding: conditional, or, and, not, comparison, + and -, ~, * / //
// %, **, unary, then attributes, calls, filters and tests.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "chat/parser.h"

namespace coxswain::chat {

ExprPtr Parser::parse_expression(bool with_conditional) {
  const Nesting nesting(*this);
  return with_conditional ? parse_conditional() : parse_or();
}

// One expression, or a tuple of them if a comma follows.
ExprPtr Parser::parse_tuple(bool with_conditional,
                            bool explicit_parentheses,
                            std::string_view extra_end) {
  auto tuple = make(ExprKind::kTuple);
  bool is_tuple = false;
  for (;;) {
    if (!tuple->children.empty()) {
      if (!take_operator(",")) break;
      is_tuple = true;
    }
    const TokenKind kind = peek().kind;
    const bool ends = kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd ||
                      at_operator(")") || (!extra_end.empty() && at_name(extra_end));
    if (ends) break;
    tuple->children.push_back(parse_expression(with_conditional));
  }
  if (!is_tuple) {
    if (!tuple->children.empty()) return std::move(tuple->children.front());
    if (!explicit_parentheses) error("expected an expression");
  }
  return finish(std::move(tuple));
}

ExprPtr Parser::parse_conditional() {
  ExprPtr node = parse_or();
  while (take_name("if")) {
    auto out = make(ExprKind::kConditional);
    out->children.push_back(std::move(node));
    out->children.push_back(parse_or());
    out->children.push_back(take_name("else") ? parse_expression() : nullptr);
    node = finish(std::move(out));
  }
  return node;
}

namespace {

struct Infix {
  std::string_view text;
  ExprKind kind;
  Operator op;  // of kBinary
};

bool is_word(ExprKind kind) {
  return kind == ExprKind::kAnd || kind == ExprKind::kOr;
}

// a + b + c is one node with three children.
bool takes_many(ExprKind kind) {
  return is_word(kind) || kind == ExprKind::kSum;
}

}  // namespace

// What associates to the left, from the loosest level to the tightest; not, comparison and ~ stand between them.
struct Parser::Level {
  std::array<Infix, 4> operators;
  ExprPtr (Parser::*operand)();
};

ExprPtr Parser::parse_infix(const Level& level) {
  ExprPtr node = (this->*level.operand)();
  for (;;) {
    const auto found = std::ranges::find_if(level.operators, [&](const Infix& infix) {
      return !infix.text.empty() &&
             (is_word(infix.kind) ? take_name(infix.text) : take_operator(infix.text));
    });
    if (found == level.operators.end()) return node;
    ExprPtr right = (this->*level.operand)();
    if (takes_many(found->kind) && node->kind == found->kind) {
      grow(*node, std::move(right));
      continue;
    }
    if (found->op == Operator::kModulo && node->kind == ExprKind::kConstant &&
        node->constant.is_string())
      check_format(node->constant.as_bytes());
    auto out = make(found->kind);
    out->op = found->op;
    out->children.push_back(std::move(node));
    out->children.push_back(std::move(right));
    node = finish(std::move(out));
  }
}

ExprPtr Parser::parse_or() {
  static constexpr Level kLevel{{{{"or", ExprKind::kOr, {}}}}, &Parser::parse_and};
  return parse_infix(kLevel);
}

ExprPtr Parser::parse_and() {
  static constexpr Level kLevel{{{{"and", ExprKind::kAnd, {}}}}, &Parser::parse_not};
  return parse_infix(kLevel);
}

ExprPtr Parser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const Nesting nesting(*this);
  ++at_;
  auto out = make(ExprKind::kNot);
  out->children.push_back(parse_not());
  return finish(std::move(out));
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr out;
  const auto add = [&](Operator op, std::size_t n_tokens) {
    at_ += n_tokens;
    if (!out) {
      out = make(ExprKind::kCompare);
      out->children.push_back(std::move(first));
    }
    out->ops.push_back(op);
    out->children.push_back(parse_sum());
  };
  for (;;) {
    if (at_operator("=="))
      add(Operator::kEqual, 1);
    else if (at_operator("!="))
      add(Operator::kNotEqual, 1);
    else if (at_operator("<="))
      add(Operator::kLessEqual, 1);
    else if (at_operator(">="))
      add(Operator::kGreaterEqual, 1);
    else if (at_operator("<"))
      add(Operator::kLess, 1);
    else if (at_operator(">"))
      add(Operator::kGreater, 1);
    else if (at_name("in"))
      add(Operator::kIn, 1);
    else if (at_name("not") && peek(1).kind == TokenKind::kName && peek(1).text == "in")
      add(Operator::kNotIn, 2);
    else
      break;
  }
  return out ? finish(std::move(out)) : std::move(first);
}

ExprPtr Parser::parse_sum() {
  static constexpr Level kLevel{
      {{{"+", ExprKind::kSum, Operator::kAdd}, {"-", ExprKind::kBinary, Operator::kSubtract}}},
      &Parser::parse_concat};
  return parse_infix(kLevel);
}

ExprPtr Parser::parse_concat() {
  ExprPtr node = parse_product();
  if (!at_operator("~")) return node;
  auto out = make(ExprKind::kConcat);
  out->children.push_back(std::move(node));
  while (take_operator("~")) out->children.push_back(parse_product());
  return finish(std::move(out));
}

ExprPtr Parser::parse_product() {
  static constexpr Level kLevel{{{{"*", ExprKind::kBinary, Operator::kMultiply},
                                  {"/", ExprKind::kBinary, Operator::kDivide},
                                  {"//", ExprKind::kBinary, Operator::kFloorDivide},
                                  {"%", ExprKind::kBinary, Operator::kModulo}}},
                                &Parser::parse_power};
  return parse_infix(kLevel);
}

ExprPtr Parser::parse_power() {
  static constexpr Level kLevel{{{{"**", ExprKind::kBinary, Operator::kPower}}},
                                &Parser::parse_operand};
  return parse_infix(kLevel);
}

ExprPtr Parser::parse_operand() {
  return parse_unary(true);
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const Nesting nesting(*this);
  ExprPtr node;
  if (at_operator("-") || at_operator("+")) {
    node = make(at_operator("-") ? ExprKind::kNegative : ExprKind::kPositive);
    ++at_;
    node->children.push_back(parse_unary(false));
    node = finish(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filter_expression(std::move(node)) : std::move(node);
}

ExprPtr Parser::parse_primary() {
  switch (peek().kind) {
    case TokenKind::kName:
      return parse_name_or_keyword();
    case TokenKind::kString: {
      auto out = make(ExprKind::kConstant);
      std::string text;
      while (peek().kind == TokenKind::kString) text += next().text;
      out->constant = Value::string(std::move(text));
      return out;
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return parse_number();
    default:
      break;
  }
  if (take_operator("(")) {
    ExprPtr out = parse_tuple(true, true);
    expect_operator(")");
    return out;
  }
  if (at_operator("[")) return parse_list();
  if (at_operator("{")) return parse_dict();
  error("unexpected '" + peek().text + "'");
}

ExprPtr Parser::parse_name_or_keyword() {
  auto out = make(ExprKind::kConstant);
  const std::string name = next().text;
  if (name == "true" || name == "True") {
    out->constant = Value::boolean(true);
  } else if (name == "false" || name == "False") {
    out->constant = Value::boolean(false);
  } else if (name == "none" || name == "None") {
    out->constant = Value::none();
  } else {
    out->kind = ExprKind::kName;
    out->name = program_.intern(name);
    if (!macros_.empty() && (name == "varargs" || name == "kwargs")) refuse("variable", name);
    for (MacroDefinition* macro : macros_)
      macro->uses_caller = macro->uses_caller || name == "caller";
  }
  return out;
}

ExprPtr Parser::parse_number() {
  auto out = make(ExprKind::kConstant);
  const Token token = next();
  std::string digits;
  std::ranges::copy_if(token.text, std::back_inserter(digits), [](char c) { return c != '_'; });
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
      value = std::strtod(digits.c_str(), nullptr);  // infinite or zero
    out->constant = Value::real(value);
    return out;
  }
  const bool is_prefixed =
      digits.size() > 1 && digits[0] == '0' && (digits[1] < '0' || digits[1] > '9');
  if (!is_prefixed) {
    out->constant = Value::integer(digits);
    return out;
  }
  const char letter = static_cast<char>(digits[1] | 0x20);
  const char* const end = digits.data() + digits.size();
  std::int64_t value = 0;
  const auto parsed = std::from_chars(digits.data() + 2,
                                      end,
                                      value,
                                      letter == 'x'   ? 16
                                      : letter == 'o' ? 8
                                                      : 2);
  if (parsed.ec != std::errc() || parsed.ptr != end)
    error("number '" + token.text.substr(0, 32) + "' is out of range");
  out->constant = Value::integer(value);
  return out;
}

ExprPtr Parser::parse_list() {
  auto out = make(ExprKind::kList);
  expect_operator("[");
  while (!at_operator("]")) {
    if (!out->children.empty()) expect_operator(",");
    if (at_operator("]")) break;
    out->children.push_back(parse_expression());
  }
  ++at_;
  return finish(std::move(out));
}

ExprPtr Parser::parse_dict() {
  auto out = make(ExprKind::kDict);
  expect_operator("{");
  while (!at_operator("}")) {
    if (!out->children.empty()) expect_operator(",");
    if (at_operator("}")) break;
    out->children.push_back(parse_expression());
    expect_operator(":");
    out->children.push_back(parse_expression());
  }
  ++at_;
  return finish(std::move(out));
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (at_operator(".") || at_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (at_operator("(")) {
      auto call = make(ExprKind::kCall);
      note_call(*node);
      call->children.push_back(std::move(node));
      call->arguments = parse_arguments();
      node = finish(std::move(call));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr node) {
  auto out = make(ExprKind::kItem);
  out->children.push_back(std::move(node));
  if (take_operator(".")) {
    if (peek().kind == TokenKind::kName) {
      out->kind = ExprKind::kAttribute;
      out->text = next().text;
    } else if (peek().kind == TokenKind::kInteger) {
      out->children.push_back(parse_number());
    } else {
      error("expected a name or number");
    }
    return finish(std::move(out));
  }
  expect_operator("[");
  auto indices = make(ExprKind::kTuple);
  while (!at_operator("]")) {
    if (!indices->children.empty()) expect_operator(",");
    indices->children.push_back(parse_index());
  }
  ++at_;
  const bool single = indices->children.size() == 1;
  out->children.push_back(single ? std::move(indices->children[0]) : finish(std::move(indices)));
  return finish(std::move(out));
}

ExprPtr Parser::parse_index() {
  const auto part = [&]() -> ExprPtr {
    return at_operator(":") || at_operator("]") || at_operator(",") ? nullptr : parse_expression();
  };
  ExprPtr begin = part();
  if (!at_operator(":")) {
    if (!begin) error("expected an index");
    return begin;
  }
  auto out = make(ExprKind::kSlice);
  out->children.push_back(std::move(begin));
  ++at_;
  out->children.push_back(part());
  out->children.push_back(take_operator(":") ? part() : nullptr);
  return finish(std::move(out));
}

CallArguments Parser::parse_arguments() {
  const Nesting nesting(*this);
  CallArguments out;
  expect_operator("(");
  bool first = true;
  while (!at_operator(")")) {
    if (!first) expect_operator(",");
    first = false;
    if (at_operator(")")) break;
    if (take_operator("*")) {
      out.star = parse_expression();
    } else if (take_operator("**")) {
      out.double_star = parse_expression();
    } else if (peek().kind == TokenKind::kName && peek(1).kind == TokenKind::kOperator &&
               peek(1).text == "=") {
      std::string name = next().text;
      ++at_;
      own_members_.insert(name);
      out.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!out.named.empty() || out.double_star) error("a positional argument follows a named one");
      out.positional.push_back(parse_expression());
    }
  }
  ++at_;
  return out;
}

ExprPtr Parser::parse_filter_expression(ExprPtr node) {
  for (;;) {
    if (at_operator("|")) {
      node = parse_filters(std::move(node), false);
    } else if (at_name("is")) {
      node = parse_test(std::move(node));
    } else if (at_operator("(")) {
      auto call = make(ExprKind::kCall);
      note_call(*node);
      call->children.push_back(std::move(node));
      call->arguments = parse_arguments();
      node = finish(std::move(call));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filters(ExprPtr node, bool start_inline) {
  while (at_operator("|") || start_inline) {
    if (!start_inline) ++at_;
    start_inline = false;
    auto out = make(ExprKind::kFilter);
    out->text = expect_name();
    while (take_operator(".")) out->text += "." + expect_name();
    out->filter = known_filter(out->text);
    out->children.push_back(std::move(node));
    if (at_operator("(")) out->arguments = parse_arguments();
    check_named_argument(*out);
    node = finish(std::move(out));
  }
  return node;
}

ExprPtr Parser::parse_test(ExprPtr node) {
  ++at_;
  const bool negated = take_name("not");
  auto out = make(ExprKind::kTest);
  out->text = expect_name();
  while (take_operator(".")) out->text += "." + expect_name();
  out->test = known_test(out->text);
  if (out->text.ends_with("defined")) {
    if (node->kind == ExprKind::kName) own_names_.insert(program_.names[node->name]);
    if (node->kind == ExprKind::kAttribute) own_members_.insert(node->text);
  }
  out->children.push_back(std::move(node));
  const TokenKind kind = peek().kind;
  const bool takes_word =
      kind == TokenKind::kName && !at_name("else") && !at_name("or") && !at_name("and");
  if (at_operator("(")) {
    out->arguments = parse_arguments();
  } else if (takes_word || kind == TokenKind::kString || kind == TokenKind::kInteger ||
             kind == TokenKind::kFloat || at_operator("[") || at_operator("{")) {
    if (at_name("is")) error("tests cannot be chained with 'is'");
    out->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  out = finish(std::move(out));
  if (!negated) return out;
  auto inverse = make(ExprKind::kNot);
  inverse->children.push_back(std::move(out));
  return finish(std::move(inverse));
}

}  // namespace coxswain::chat
