#include "chat/parser.h"

#include <algorithm>

#include "chat/builtins.h"
#include "chat/methods.h"
#include "chat/python_format.h"

namespace coxswain::chat {

NameId Program::intern(const std::string& name) {
  const auto [it, is_new] = ids.emplace(name, static_cast<NameId>(names.size()));
  if (is_new) names.push_back(name);
  return it->second;
}

NameId Program::find(std::string_view name) const {
  const auto it = ids.find(std::string(name));
  return it == ids.end() ? kNoName : it->second;
}

Program parse_template(std::string_view source, std::size_t depth_max) {
  return Parser(tokenize(source), depth_max).run();
}

Program Parser::run() {
  program_.body = parse_until({});
  check_calls();
  program_.known = {.messages = program_.find("messages"),
                    .tools = program_.find("tools"),
                    .documents = program_.find("documents"),
                    .bos_token = program_.find("bos_token"),
                    .eos_token = program_.find("eos_token"),
                    .add_generation_prompt = program_.find("add_generation_prompt"),
                    .loop = program_.find("loop"),
                    .caller = program_.find("caller")};
  return std::move(program_);
}

void Parser::error(const std::string& message) const {
  fail("line " + std::to_string(peek().line) + ": " + message);
}

void Parser::refuse(std::string_view what, const std::string& name) const {
  error(std::string(what) + " '" + name.substr(0, 64) + "' is not supported");
}

void Parser::too_deep() const {
  error("the template nests deeper than " + std::to_string(depth_max_));
}

bool Parser::take_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  ++at_;
  return true;
}

bool Parser::take_name(std::string_view text) {
  if (!at_name(text)) return false;
  ++at_;
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!take_operator(text)) error("expected '" + std::string(text) + "'");
}

std::string Parser::expect_name() {
  if (peek().kind != TokenKind::kName) error("expected a name");
  return next().text;
}

void Parser::expect_block_end() {
  if (peek().kind != TokenKind::kBlockEnd) error("expected the end of the tag");
  ++at_;
}

ExprPtr Parser::make(ExprKind kind) const {
  auto out = std::make_unique<Expr>();
  out->kind = kind;
  out->is_place = kind == ExprKind::kConstant || kind == ExprKind::kName;
  return out;
}

ExprPtr Parser::finish(ExprPtr node) const {
  const auto look_at = [&](const ExprPtr& child) {
    if (child) node->height = std::max(node->height, child->height + 1);
  };
  for (const ExprPtr& child : node->children) look_at(child);
  for (const ExprPtr& value : node->arguments.positional) look_at(value);
  for (const auto& [name, value] : node->arguments.named) look_at(value);
  look_at(node->arguments.star);
  look_at(node->arguments.double_star);
  check_height(*node);
  const bool is_member =
      node->kind == ExprKind::kAttribute ||
      (node->kind == ExprKind::kItem && node->children[1]->kind == ExprKind::kConstant);
  node->is_place = is_member && node->children[0]->is_place;
  node->hides_member = node->kind == ExprKind::kAttribute && is_dict_method(node->text);
  return node;
}

void Parser::grow(Expr& node, ExprPtr child) const {
  node.height = std::max(node.height, child->height + 1);
  node.children.push_back(std::move(child));
  check_height(node);
}

void Parser::check_height(const Expr& node) const {
  if (node.height > depth_max_) too_deep();
}

const FilterEntry* Parser::known_filter(const std::string& name) const {
  const FilterEntry* filter = find_filter(name);
  if (filter == nullptr) refuse("filter", name);
  return filter;
}

const TestEntry* Parser::known_test(const std::string& name) const {
  const TestEntry* test = find_test(name);
  if (test == nullptr) refuse("test", name);
  return test;
}

// The filter that map takes by name, or the test that select and its like take. One that is no constant is left
// to the run.
void Parser::check_named_argument(const Expr& filter) const {
  const std::string& name = filter.text;
  const bool by_attribute = name == "selectattr" || name == "rejectattr";
  if (!by_attribute && name != "map" && name != "select" && name != "reject") return;
  const std::vector<ExprPtr>& given = filter.arguments.positional;
  const std::size_t at = by_attribute ? 1 : 0;
  if (given.size() <= at || given[at]->kind != ExprKind::kConstant ||
      !given[at]->constant.is_string())
    return;
  const std::string& wanted = given[at]->constant.as_bytes();
  name == "map" ? static_cast<void>(known_filter(wanted)) : static_cast<void>(known_test(wanted));
}

void Parser::check_format(const std::string& format) const {
  try {
    check_percent_format(format);
  } catch (const RenderError& unknown) {
    error(unknown.message);
  }
}

void Parser::note_call(const Expr& callee) {
  if (callee.kind == ExprKind::kAttribute) calls_.push_back({callee.text, true, peek().line});
  if (callee.kind == ExprKind::kName)
    calls_.push_back({program_.names[callee.name], false, peek().line});
}

void Parser::check_calls() const {
  for (const Call& call : calls_) {
    const bool is_known = call.is_method
                              ? is_known_method(call.name) || own_members_.contains(call.name)
                              : call.name == "loop" || call.name == "caller" ||
                                    own_names_.contains(call.name) ||
                                    !find_function(call.name).is_undefined();
    if (!is_known)
      fail("line " + std::to_string(call.line) + ": " + (call.is_method ? "method" : "function") +
           " '" + call.name.substr(0, 64) + "' is not supported");
  }
}

std::unique_ptr<Stmt> Parser::make_stmt(StmtKind kind) const {
  auto out = std::make_unique<Stmt>();
  out->kind = kind;
  return out;
}

// Statements up to a tag whose name is among `ends`; the tag's name is left to be read, "{%" is consumed.
Body Parser::parse_until(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  Body body;
  for (;;) {
    switch (peek().kind) {
      case TokenKind::kData: {
        auto text = make_stmt(StmtKind::kText);
        text->text = Text(next().text);
        body.push_back(std::move(text));
        break;
      }
      case TokenKind::kVariableBegin: {
        auto print = make_stmt(StmtKind::kPrint);
        ++at_;
        print->expr = parse_tuple(true, false);
        if (peek().kind != TokenKind::kVariableEnd)
          error("expected the end of the print statement");
        ++at_;
        body.push_back(std::move(print));
        break;
      }
      case TokenKind::kBlockBegin: {
        ++at_;
        const bool ends_here = peek().kind == TokenKind::kName &&
                               std::ranges::find(ends, std::string_view(peek().text)) != ends.end();
        if (ends_here) return body;
        if (auto statement = parse_statement()) body.push_back(std::move(statement));
        break;
      }
      default:
        if (ends.size() != 0)
          error("unexpected end of the template, missing '" + std::string(*(ends.end() - 1)) + "'");
        return body;
    }
  }
}

std::unique_ptr<Stmt> Parser::parse_statement() {
  const std::string tag = expect_name();
  if (tag == "if") return parse_if();
  if (tag == "for") return parse_for();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "filter") return parse_filter_block();
  if (tag == "with") return parse_with();
  if (tag == "generation") return parse_generation();
  if (tag == "break") return parse_jump(StmtKind::kBreak);
  if (tag == "continue") return parse_jump(StmtKind::kContinue);
  if (tag.starts_with("end") || tag == "else" || tag == "elif") error("unexpected '" + tag + "'");
  refuse("tag", tag);
}

std::unique_ptr<Stmt> Parser::parse_if() {
  auto out = make_stmt(StmtKind::kIf);
  for (;;) {
    auto condition = parse_tuple(false, false);
    expect_block_end();
    out->branches.emplace_back(std::move(condition), parse_until({"elif", "else", "endif"}));
    const std::string tag = expect_name();
    if (tag == "elif") continue;
    if (tag == "else") {
      expect_block_end();
      out->branches.emplace_back(nullptr, parse_until({"endif"}));
      ++at_;
    }
    expect_block_end();
    return out;
  }
}

std::unique_ptr<Stmt> Parser::parse_for() {
  auto out = make_stmt(StmtKind::kFor);
  out->target = parse_target(true, false);
  if (!take_name("in")) error("expected 'in'");
  out->expr = parse_tuple(false, false, "recursive");
  if (take_name("if")) out->filter = parse_expression();
  out->recursive = take_name("recursive");
  expect_block_end();
  ++loops_;
  out->body = parse_until({"endfor", "else"});
  --loops_;
  if (take_name("else")) {
    expect_block_end();
    out->else_body = parse_until({"endfor"});
  }
  ++at_;
  expect_block_end();
  return out;
}

std::unique_ptr<Stmt> Parser::parse_set() {
  auto out = make_stmt(StmtKind::kSet);
  out->target = parse_target(true, true);
  if (take_operator("=")) {
    out->expr = parse_tuple(true, false);
    expect_block_end();
    return out;
  }
  out->kind = StmtKind::kSetBlock;
  if (at_operator("|")) out->filter = parse_filters(make(ExprKind::kConstant), false);
  expect_block_end();
  out->body = parse_until({"endset"});
  ++at_;
  expect_block_end();
  return out;
}

void Parser::parse_signature(MacroDefinition& macro) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    if (at_operator(")")) break;
    macro.parameter_texts.push_back(expect_name());
    own_names_.insert(macro.parameter_texts.back());
    macro.parameters.push_back(program_.intern(macro.parameter_texts.back()));
    if (take_operator("=")) {
      macro.defaults.push_back(parse_expression());
    } else if (!macro.defaults.empty()) {
      error("a parameter without default follows one with default");
    }
  }
  ++at_;
}

std::unique_ptr<Stmt> Parser::parse_macro() {
  auto out = make_stmt(StmtKind::kMacro);
  out->macro = std::make_shared<MacroDefinition>();
  out->macro->text = expect_name();
  own_names_.insert(out->macro->text);
  out->macro->name = program_.intern(out->macro->text);
  parse_signature(*out->macro);
  expect_block_end();
  macros_.push_back(out->macro.get());
  const std::size_t loops = std::exchange(loops_, 0);
  out->macro->body = parse_until({"endmacro"});
  loops_ = loops;
  macros_.pop_back();
  ++at_;
  expect_block_end();
  return out;
}

std::unique_ptr<Stmt> Parser::parse_call_block() {
  auto out = make_stmt(StmtKind::kCallBlock);
  out->macro = std::make_shared<MacroDefinition>();
  out->macro->text = "caller";
  out->macro->name = program_.intern("caller");
  if (at_operator("(")) parse_signature(*out->macro);
  out->expr = parse_expression();
  if (out->expr->kind != ExprKind::kCall) error("expected a call");
  expect_block_end();
  macros_.push_back(out->macro.get());
  const std::size_t loops = std::exchange(loops_, 0);
  out->macro->body = parse_until({"endcall"});
  loops_ = loops;
  macros_.pop_back();
  ++at_;
  expect_block_end();
  return out;
}

std::unique_ptr<Stmt> Parser::parse_filter_block() {
  auto out = make_stmt(StmtKind::kFilterBlock);
  out->filter = parse_filters(make(ExprKind::kConstant), true);
  expect_block_end();
  out->body = parse_until({"endfilter"});
  ++at_;
  expect_block_end();
  return out;
}

std::unique_ptr<Stmt> Parser::parse_with() {
  auto out = make_stmt(StmtKind::kWith);
  while (peek().kind != TokenKind::kBlockEnd) {
    if (!out->bindings.empty()) expect_operator(",");
    Target target = parse_target(true, false);
    expect_operator("=");
    out->bindings.emplace_back(std::move(target), parse_expression());
  }
  expect_block_end();
  out->body = parse_until({"endwith"});
  ++at_;
  expect_block_end();
  return out;
}

std::unique_ptr<Stmt> Parser::parse_generation() {
  auto out = make_stmt(StmtKind::kScope);
  expect_block_end();
  out->body = parse_until({"endgeneration"});
  ++at_;
  expect_block_end();
  return out;
}

std::unique_ptr<Stmt> Parser::parse_jump(StmtKind kind) {
  if (loops_ == 0) error("'break' or 'continue' outside of a loop");
  auto out = make_stmt(kind);
  expect_block_end();
  return out;
}

Target Parser::parse_single_target(bool with_attribute) {
  Target out;
  if (take_operator("(")) {
    out = parse_target(true, with_attribute);
    expect_operator(")");
    return out;
  }
  const std::string name = expect_name();
  for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None"}) {
    if (name == reserved) error("cannot assign to '" + name + "'");
  }
  out.name = program_.intern(name);
  own_names_.insert(name);
  if (with_attribute && take_operator(".")) {
    out.kind = Target::Kind::kAttribute;
    out.attribute = expect_name();
    own_members_.insert(out.attribute);
  }
  return out;
}

Target Parser::parse_target(bool with_tuple, bool with_attribute) {
  const Nesting nesting(*this);
  Target first = parse_single_target(with_attribute);
  if (!with_tuple || !at_operator(",")) return first;
  Target out;
  out.kind = Target::Kind::kTuple;
  out.items.push_back(std::move(first));
  while (take_operator(",")) {
    if (at_name("in") || at_operator("=") || at_operator(")")) break;
    out.items.push_back(parse_single_target(with_attribute));
  }
  return out;
}

}  // namespace coxswain::chat
