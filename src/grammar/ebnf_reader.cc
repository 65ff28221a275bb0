#include "grammar/ebnf_reader.h"

#include <algorithm>

#include "base/utf8.h"
#include "grammar/ebnf.h"

namespace coxswain::grammar {
namespace {

using Kind = Expressions::Kind;

constexpr std::uint64_t kNumberMax = 1'000'000'000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_character(char c) {
  const char lower = static_cast<char>(c | 32);
  return (lower >= 'a' && lower <= 'z') || is_digit(c) || c == '_' || c == '-';
}

}  // namespace

EbnfReader::EbnfReader(Expressions& out,
                       std::string_view text,
                       std::span<const std::string_view> comments)
    : out_(out), text_(text), comments_(comments) {
  at_ = base::valid_utf8_prefix(text);
  if (at_ < text.size()) {
    text_ = text.substr(0, at_);
    fail("the bytes here are not UTF-8");
  }
  at_ = 0;
}

char EbnfReader::peek(std::size_t ahead) const {
  return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
}

bool EbnfReader::take(std::string_view text) {
  if (!status_.ok() || !text_.substr(at_).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

char32_t EbnfReader::take_character() {
  const base::CodePoint next = base::code_point_at(text_, at_);
  at_ += next.n_bytes;
  return next.value;
}

std::string_view EbnfReader::take_name() {
  const std::size_t begin = at_;
  // "->" begins an alias.
  while (!at_end() && is_name_character(peek()) && !(peek() == '-' && peek(1) == '>')) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::uint64_t EbnfReader::take_number() {
  std::uint64_t value = 0;
  if (!is_digit(peek())) fail("a number belongs here, not " + found());
  for (; !at_end() && is_digit(peek()); ++at_)
    value = std::min(value * 10 + static_cast<std::uint64_t>(peek() - '0'), kNumberMax);
  return value;
}

std::string EbnfReader::take_string() {
  const std::size_t begin = at_ - 1;
  std::string out;
  while (!ends_line() && peek() != '"')
    base::append_utf8(out, take("\\") ? take_escape() : take_character());
  if (status_.ok() && !take("\"")) fail_at(begin, "a string without its closing '\"'");
  return out;
}

char32_t EbnfReader::take_hex(std::size_t n_digits) {
  char32_t value = 0;
  for (std::size_t i = 0; i < n_digits; ++i) {
    const char lower = static_cast<char>(peek() | 32);
    const bool is_letter = lower >= 'a' && lower <= 'f';
    if (at_end() || (!is_digit(peek()) && !is_letter)) {
      fail("the escape needs " + std::to_string(n_digits) + " hexadecimal digits");
      return 0;
    }
    value = value * 16 +
            static_cast<char32_t>(is_letter ? lower - 'a' + 10 : static_cast<int>(peek() - '0'));
    ++at_;
  }
  return value;
}

// Behind "\u": one character, or the two halves of one as JSON spells it.
char32_t EbnfReader::take_unicode() {
  const char32_t value = take_hex(4);
  if (value < 0xD800 || value > 0xDBFF || !take("\\u")) return value;
  const char32_t low = take_hex(4);
  if (low < 0xDC00 || low > 0xDFFF) return value;  // refused as half a character
  return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
}

char32_t EbnfReader::take_escape() {
  const std::size_t begin = at_ - 1;
  if (ends_line()) {
    fail_at(begin, "'\\' escapes nothing");
    return 0;
  }
  char32_t c = take_character();
  switch (c) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'b':
      return '\b';
    case '0':
      return 0;
    case 'x':
      c = take_hex(2);
      break;
    case 'u':
      c = take_unicode();
      break;
    case 'U':
      c = take_hex(8);
      break;
    default:
      if (c < 0x80 && !is_name_character(static_cast<char>(c))) return c;
      if (c == '-' || c == '_') return c;
      fail_at(begin,
              "the escape '" + std::string(text_.substr(begin, at_ - begin)) + "' is not known");
      return 0;
  }
  if (c > kCodePointMax || (c >= 0xD800 && c <= 0xDFFF)) {
    fail_at(begin, "there is no character with this number");
    return 0;
  }
  return c;
}

void EbnfReader::skip_blanks() {
  while (!at_end()) {
    if (peek() == ' ' || peek() == '\t') {
      ++at_;
      continue;
    }
    const bool is_comment = std::ranges::any_of(
        comments_, [&](std::string_view begin) { return text_.substr(at_).starts_with(begin); });
    if (!is_comment) return;
    while (!ends_line()) ++at_;
  }
}

void EbnfReader::skip_lines() {
  skip_blanks();
  while (!at_end() && ends_line()) {
    ++at_;
    skip_blanks();
  }
}

void EbnfReader::fail_at(std::size_t at, std::string_view what, Code code) {
  if (!status_.ok()) return;
  const std::string_view before = text_.substr(0, at);
  const auto n_lines = static_cast<std::size_t>(std::ranges::count(before, '\n'));
  const std::size_t line = before.rfind('\n') + 1;  // npos + 1 is 0
  status_ = {code,
             ErrorKind::kValidation,
             "line " + std::to_string(n_lines + 1) + ", column " +
                 std::to_string(base::count_characters(before.substr(line)) + 1) + ": " +
                 std::string(what)};
}

std::string EbnfReader::found() const {
  if (at_ == text_.size()) return "the end of the grammar";
  if (ends_line()) return "the end of the line";
  const base::CodePoint next = base::code_point_at(text_, at_);
  if (next.value < 0x20) return "the control character " + std::to_string(next.value);
  return "'" + std::string(text_.substr(at_, next.n_bytes)) + "'";
}

EbnfReader::Rule& EbnfReader::rule_named(std::string_view name, std::size_t at) {
  const auto known = rules_.find(name);
  if (known != rules_.end()) return known->second;
  if (rules_.size() == kGrammarRulesMax) {
    fail_at(at,
            "the grammar has more than " + std::to_string(kGrammarRulesMax) + " rules",
            Code::kResourceExhausted);
    return rules_.begin()->second;
  }
  return rules_.emplace(name, Rule{.id = out_.add_rule(), .first_use = at}).first->second;
}

Node EbnfReader::call(std::string_view name, std::size_t at) {
  return out_.rule(rule_named(name, at).id);
}

void EbnfReader::define(std::string_view name, std::size_t at, Node node) {
  Rule& rule = rule_named(name, at);
  if (rule.is_defined) fail_at(at, "'" + std::string(name) + "' is defined twice");
  if (!status_.ok()) return;
  rule.is_defined = true;
  out_.define(rule.id, without_left_recursion(rule.id, node));
}

void EbnfReader::check_defined() {
  const Rules::value_type* first = nullptr;
  for (const auto& entry : rules_) {
    if (entry.second.is_defined) continue;
    if (first == nullptr || entry.second.first_use < first->second.first_use) first = &entry;
  }
  if (first != nullptr) fail_at(first->second.first_use, "'" + first->first + "' is not defined");
}

// a = a x | a y | z is z (x | y)*: what begins with z and goes on with x and y for as long as it likes.
Node EbnfReader::without_left_recursion(RuleId rule, Node node) {
  const auto is_call = [&](Node part) {
    return out_.entry(part).kind == Kind::kRule && out_.entry(part).rule == rule;
  };
  std::vector<Node> ends;
  std::vector<Node> begins;
  bool is_recursive = false;
  std::vector<Node> open = {node};
  while (!open.empty()) {
    const Node one = open.back();
    open.pop_back();
    // A copy: entries move as others are made.
    const std::vector<Node> parts = out_.entry(one).parts;
    if (out_.entry(one).kind == Kind::kChoice) {
      open.insert(open.end(), parts.rbegin(), parts.rend());
    } else if (is_call(one)) {
      is_recursive = true;  // a = a adds nothing
    } else if (out_.entry(one).kind == Kind::kSequence && is_call(parts.front())) {
      is_recursive = true;
      ends.push_back(out_.sequence(std::span(parts).subspan(1)));
    } else {
      begins.push_back(one);
    }
  }
  if (!is_recursive) return node;
  return out_.sequence({out_.choice(begins), out_.repeat(out_.choice(ends), 0)});
}

// To where an alternative begins: lines may end before it unless it is empty and the next definition follows.
void EbnfReader::skip_to_alternative(std::size_t depth) {
  const std::size_t begin = at_;
  skip_lines();
  if (depth == 0 && (at_end() || starts_definition()) && status_.ok()) at_ = begin;
}

bool EbnfReader::take_bar(std::size_t depth) {
  const std::size_t begin = at_;
  skip_lines();
  if (take("|")) return true;
  if (depth == 0 && status_.ok()) at_ = begin;
  return false;
}

Node EbnfReader::parse_choice(std::size_t depth) {
  if (depth > kGrammarDepthMax) {
    fail_at(at_,
            "groups nest more than " + std::to_string(kGrammarDepthMax) + " deep",
            Code::kResourceExhausted);
    return out_.nothing();
  }
  std::vector<Node> alternatives;
  do {
    skip_to_alternative(depth);
    alternatives.push_back(parse_sequence(depth));
    end_alternative();
  } while (take_bar(depth));
  return out_.choice(alternatives);
}

Node EbnfReader::parse_sequence(std::size_t depth) {
  std::vector<Node> parts;
  while (true) {
    depth == 0 ? skip_blanks() : skip_lines();
    if (at_end() || ends_line()) break;
    if (peek() == '|' || peek() == ')' || peek() == ']') break;
    if (peek() == '-' && peek(1) == '>') break;
    Node atom = parse_atom(depth);
    Repeats repeats;
    for (depth == 0 ? skip_blanks() : skip_lines(); take_repeats(repeats);
         depth == 0 ? skip_blanks() : skip_lines()) {
      atom = out_.repeat(atom, repeats.min, repeats.max);
    }
    parts.push_back(atom);
    if (out_.size() > kGrammarSizeMax) {
      fail_at(at_,
              "the grammar up to here has more than " + std::to_string(kGrammarSizeMax) +
                  " parts and ranges of characters",
              Code::kResourceExhausted);
    }
  }
  return out_.sequence(parts);
}

bool EbnfReader::take_repeats(Repeats& out) {
  const std::size_t begin = at_;
  if (take("*")) {
    out = {};
  } else if (take("+")) {
    out = {.min = 1};
  } else if (take("?")) {
    out = {.max = 1};
  } else if (take("{")) {
    skip_blanks();
    const std::uint64_t min = peek() == ',' ? 0 : take_number();
    std::uint64_t max = min;
    skip_blanks();
    if (take(",")) {
      skip_blanks();
      max = peek() == '}' ? kUnbounded : take_number();
      skip_blanks();
    }
    if (!take("}")) fail("a repetition without its '}'");
    out = checked(begin, min, max);
  } else {
    return false;
  }
  return status_.ok();
}

EbnfReader::Repeats EbnfReader::checked(std::size_t at, std::uint64_t min, std::uint64_t max) {
  if (min > kGrammarRepeatMax || (max > kGrammarRepeatMax && max != kUnbounded)) {
    fail_at(at,
            "a repetition of more than " + std::to_string(kGrammarRepeatMax),
            Code::kResourceExhausted);
  } else if (min > max) {
    fail_at(
        at,
        "a repetition of at least " + std::to_string(min) + " and at most " + std::to_string(max));
  }
  if (!status_.ok()) return {};
  return {.min = static_cast<std::uint32_t>(min), .max = static_cast<std::uint32_t>(max)};
}

}  // namespace coxswain::grammar
