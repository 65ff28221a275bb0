#pragma once
// EbnfReader: what the readers of GBNF and of Lark's language share: the text with its places, the names of rules, and
// alternatives, sequences and repetitions. Internal to them.
//
// The first failure stands; from then on the text is at its end, so that every loop ends.
//
// Thread rule: belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "grammar/expression.h"

namespace coxswain::grammar {

class EbnfReader {
 public:
  EbnfReader(const EbnfReader&) = delete;
  EbnfReader& operator=(const EbnfReader&) = delete;

 protected:
  struct Repeats {
    std::uint32_t min = 0;
    std::uint32_t max = kUnbounded;
  };
  struct Rule {
    RuleId id = 0;
    std::size_t first_use = 0;  // a place in the text
    bool is_defined = false;
  };
  using Rules = std::map<std::string, Rule, std::less<>>;

  // `comments`: what begins one, to the end of the line.
  EbnfReader(Expressions& out, std::string_view text, std::span<const std::string_view> comments);
  ~EbnfReader() = default;

  // The text.
  bool at_end() const { return at_ == text_.size() || !status_.ok(); }
  char peek(std::size_t ahead = 0) const;  // '\0' behind the end
  bool take(std::string_view text);
  char32_t take_character();     // REQUIRES: !at_end()
  std::string_view take_name();  // letters, digits, '_' and '-'; may be empty
  std::uint64_t take_number();   // of decimal digits; kUnbounded or more: too large for anything
  std::string take_string();     // behind its opening '"'
  char32_t take_escape();        // behind '\'
  void skip_blanks();            // and comments
  void skip_lines();             // blanks, comments and ends of lines
  void fail(std::string_view what) { fail_at(at_, what); }
  void fail_at(std::size_t at, std::string_view what, Code code = Code::kInvalidArgument);
  std::string found() const;  // what stands here, for messages
  bool ends_line() const { return at_end() || peek() == '\n' || peek() == '\r'; }

  // Rules by name.
  Rule& rule_named(std::string_view name, std::size_t at);
  Node call(std::string_view name, std::size_t at);
  // Fails for one that is defined already. `at`: of the name.
  void define(std::string_view name, std::size_t at, Node node);
  const Rules& rules() const { return rules_; }
  // Fails for a rule that is used and never defined, the first of them.
  void check_defined();

  // Alternatives up to the ')', ']' or, where depth is 0, the end of the line that ends them.
  Node parse_choice(std::size_t depth);
  virtual Node parse_atom(std::size_t depth) = 0;
  virtual bool take_repeats(Repeats& out);
  virtual void end_alternative() {}
  // Whether a definition begins here, or a directive.
  virtual bool starts_definition() = 0;
  Repeats checked(std::size_t at, std::uint64_t min, std::uint64_t max);

  Expressions& out_;
  std::string_view text_;
  std::size_t at_ = 0;
  Status status_;

 private:
  Node parse_sequence(std::size_t depth);
  void skip_to_alternative(std::size_t depth);
  bool take_bar(std::size_t depth);
  char32_t take_hex(std::size_t n_digits);
  char32_t take_unicode();
  Node without_left_recursion(RuleId rule, Node node);

  std::span<const std::string_view> comments_;
  Rules rules_;
};

}  // namespace coxswain::grammar
