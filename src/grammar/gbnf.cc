#include <array>
#include <string>
#include <string_view>

#include "grammar/ebnf.h"
#include "grammar/ebnf_reader.h"

namespace coxswain::grammar {
namespace {

constexpr std::array<std::string_view, 1> kComments{"#"};

class GbnfReader final : public EbnfReader {
 public:
  GbnfReader(Expressions& out, std::string_view text) : EbnfReader(out, text, kComments) {}

  Result<Node> read() {
    for (skip_lines(); !at_end(); skip_lines()) read_rule();
    if (status_.ok()) check_defined();
    if (status_.ok() && !rules().contains("root"))
      fail("the grammar does not define the rule 'root', with which it starts");
    if (!status_.ok()) return status_;
    return call("root", 0);
  }

 private:
  void read_rule() {
    const std::size_t begin = at_;
    const std::string_view name = take_name();
    if (name.empty()) return fail("the name of a rule belongs here, not " + found());
    skip_blanks();
    if (!take("::=")) return fail("'::=' belongs here, not " + found());
    const Node node = parse_choice(0);
    if (status_.ok() && !ends_line())
      fail("the end of the rule '" + std::string(name) + "' belongs here, not " + found());
    define(name, begin, node);
  }

  bool starts_definition() override {
    const std::size_t begin = at_;
    const bool has_name = !take_name().empty();
    skip_blanks();
    const bool out = has_name && take("::=");
    at_ = begin;
    return out;
  }

  Node parse_atom(std::size_t depth) override {
    const std::size_t begin = at_;
    if (take("\"")) return out_.bytes(take_string());
    if (take("[")) return out_.characters(parse_class());
    if (take(".")) return out_.characters(CharacterSet::all());
    if (take("(")) {
      const Node inside = parse_choice(depth + 1);
      if (!take(")")) fail_at(begin, "a group without its ')'");
      return inside;
    }
    if (peek() == '<' || peek() == '!') fail("tokens, written <...>, are not supported");
    const std::string_view name = take_name();
    if (!name.empty()) return call(name, begin);
    fail(found() + " begins no part of a rule");
    return out_.nothing();
  }

  CharacterSet parse_class() {
    const std::size_t begin = at_ - 1;
    const bool is_negated = take("^");
    CharacterSet set;
    if (peek() == ']') fail_at(begin, "a class may not be empty");
    while (!ends_line() && peek() != ']') {
      const std::size_t member = at_;
      const char32_t first = take_member();
      char32_t last = first;
      if (peek() == '-' && peek(1) != ']' && take("-")) {
        if (ends_line()) break;
        last = take_member();
      }
      if (first > last) fail_at(member, "a range whose end comes before its beginning");
      if (status_.ok()) set.add(first, last);
    }
    if (!take("]")) fail_at(begin, "a class without its ']'");
    return is_negated ? set.complement() : set;
  }

  char32_t take_member() { return take("\\") ? take_escape() : take_character(); }
};

}  // namespace

Result<Node> parse_gbnf(Expressions& expressions, std::string_view text) {
  return GbnfReader(expressions, text).read();
}

}  // namespace coxswain::grammar
