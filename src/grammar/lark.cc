#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/ebnf.h"
#include "grammar/ebnf_reader.h"
#include "grammar/lark_terminals.h"
#include "grammar/regex.h"

namespace coxswain::grammar {
namespace {

constexpr std::array<std::string_view, 2> kComments{"//", "#"};
constexpr std::string_view kIgnore = "%ignore";

// With the other case of ASCII's letters.
CharacterSet in_either_case(const CharacterSet& set) {
  constexpr char32_t kCaseBit = 'a' - 'A';
  const CharacterSet upper = set.intersection({{'A', 'Z'}});
  const CharacterSet lower = set.intersection({{'a', 'z'}});
  CharacterSet out = set;
  for (const auto& [first, last] : upper.ranges()) out.add(first + kCaseBit, last + kCaseBit);
  for (const auto& [first, last] : lower.ranges()) out.add(first - kCaseBit, last - kCaseBit);
  return out;
}

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class LarkReader final : public EbnfReader {
 public:
  LarkReader(Expressions& out, std::string_view text) : EbnfReader(out, text, kComments) {
    if (text.find(kIgnore) == std::string_view::npos) return;
    ignored_rule_ = out.add_rule();
    skip_ = out.rule(ignored_rule_);
  }

  Result<Node> read() {
    for (skip_lines(); !at_end(); skip_lines()) {
      peek() == '%' ? read_directive() : read_definition();
      if (status_.ok() && !ends_line()) fail("the end of the line belongs here, not " + found());
    }
    if (status_.ok()) check_defined();
    if (status_.ok()) check_terminals();
    if (status_.ok() && !rules().contains("start"))
      fail("the grammar does not define the rule 'start', with which it starts");
    if (!status_.ok()) return status_;
    if (skip_ != out_.empty()) out_.define(ignored_rule_, out_.repeat(out_.choice(ignored_), 0));
    return out_.sequence({call("start", 0), skip_});
  }

 private:
  // Where a terminal refers to another.
  struct Use {
    std::string name;
    std::size_t at = 0;
  };
  using Uses = std::vector<Use>;

  void read_definition() {
    while (take("?") || take("!")) {
    }
    const std::size_t begin = at_;
    const std::string name(take_name());
    if (name.empty())
      return fail("a rule, a TERMINAL or a %directive belongs here, not " + found());
    const bool terminal = is_terminal(name, begin);
    if (peek() == '{') return fail("templates are not supported");
    if (peek() == '[') return fail("attributes of rules are not supported");
    if (take(".")) {
      take("-");
      take_number();
    }
    skip_blanks();
    if (!take(":")) return fail("':' belongs here, not " + found());
    uses_ = terminal ? &terminals_[name] : nullptr;
    const Node node = parse_choice(0);
    uses_ = nullptr;
    define(name, begin, node);
  }

  void read_directive() {
    const std::size_t begin = at_;
    take("%");
    const std::string_view name = take_name();
    skip_blanks();
    if (name == "ignore") return read_ignore();
    if (name == "import") return read_import();
    fail_at(begin, "'%" + std::string(name) + "' is not supported");
  }

  void read_ignore() {
    Uses uses;  // nothing refers to what is ignored, so that it is in no circle
    uses_ = &uses;
    ignored_.push_back(parse_choice(0));
    uses_ = nullptr;
  }

  // Behind `%import`: common.NAME, common.NAME -> ALIAS or common (NAME, NAME).
  void read_import() {
    const std::size_t begin = at_;
    if (take_name() != "common") return fail_at(begin, "only 'common' can be imported from");
    if (take(".")) return import_one(true);
    skip_blanks();
    if (!take("(")) return fail("'.' or '(' belongs here, not " + found());
    do {
      skip_lines();
      import_one(false);
      skip_lines();
    } while (take(","));
    if (!take(")")) fail("')' belongs here, not " + found());
  }

  void import_one(bool may_rename) {
    std::size_t begin = at_;
    std::string name(take_name());
    const auto pattern = common_terminal(name);
    if (!pattern) return fail_at(begin, "'common' has no terminal '" + name + "' here");
    skip_blanks();
    if (may_rename && take("->")) {
      skip_blanks();
      begin = at_;
      name = take_name();
      if (!is_terminal(name, begin)) return fail_at(begin, "the name of a terminal belongs here");
    }
    terminals_[name];
    define(name, begin, regex(*pattern, begin, {}));
  }

  // Terminals are in upper case, rules in lower case.
  bool is_terminal(std::string_view name, std::size_t at) {
    const auto first = std::ranges::find_if(name, [](char c) { return c != '_'; });
    const bool has_upper = std::ranges::any_of(name, is_upper);
    const bool has_lower = std::ranges::any_of(name, is_lower);
    if (first == name.end() || is_digit(*first) || *first == '-' || has_upper == has_lower) {
      fail_at(at,
              "'" + std::string(name) +
                  "' is no name: those of rules are in lower case, those of terminals in upper "
                  "case");
    }
    return has_upper;
  }

  bool starts_definition() override {
    if (peek() == '%') return true;
    const std::size_t begin = at_;
    while (take("?") || take("!")) {
    }
    const bool has_name = !take_name().empty();
    if (take(".")) {
      take("-");
      while (is_digit(peek())) ++at_;
    }
    skip_blanks();
    const bool out = has_name && take(":");
    at_ = begin;
    return out;
  }

  void end_alternative() override {
    if (!take("->")) return;
    skip_blanks();
    if (take_name().empty()) fail("a name belongs behind '->', not " + found());
  }

  bool take_repeats(Repeats& out) override {
    const std::size_t begin = at_;
    if (!take("~")) return EbnfReader::take_repeats(out);
    skip_blanks();
    const std::uint64_t min = take_number();
    std::uint64_t max = min;
    skip_blanks();
    if (take("..")) {
      skip_blanks();
      max = take_number();
    }
    out = checked(begin, min, max);
    return status_.ok();
  }

  // A terminal where a rule has it: behind what is ignored.
  Node token(Node terminal) {
    return uses_ == nullptr ? out_.sequence({skip_, terminal}) : terminal;
  }

  Node parse_atom(std::size_t depth) override {
    const std::size_t begin = at_;
    if (take("\"")) return token(string(begin));
    if (take("/")) return token(regex_between_slashes(begin));
    if (take("(")) {
      const Node inside = parse_choice(depth + 1);
      if (!take(")")) fail_at(begin, "a group without its ')'");
      return inside;
    }
    if (take("[")) {
      const Node inside = parse_choice(depth + 1);
      if (!take("]")) fail_at(begin, "'[' without its ']'");
      return out_.optional(inside);
    }
    if (peek() == '<') fail("special tokens, written <...>, are not supported");
    if (take("%")) fail_at(begin, "'%" + std::string(take_name()) + "' is not supported");
    const std::string_view name = take_name();
    if (!name.empty()) return reference(name, begin);
    fail(found() + " begins no part of a rule");
    return out_.nothing();
  }

  Node reference(std::string_view name, std::size_t begin) {
    const bool terminal = is_terminal(name, begin);
    if (peek() == '{' && !is_digit(peek(1)) && peek(1) != ',' && peek(1) != ' ')
      fail("templates are not supported");
    const Node node = call(name, begin);
    if (!terminal) {
      if (uses_ != nullptr) {
        fail_at(begin, "a terminal may not refer to '" + std::string(name) + "', which is a rule");
      }
      return node;
    }
    if (uses_ != nullptr) uses_->push_back({std::string(name), begin});
    return token(node);
  }

  // Behind '"'.
  Node string(std::size_t begin) {
    const std::string first = take_string();
    if (take("i")) {
      std::vector<Node> parts;
      for (const char32_t c : characters(first))
        parts.push_back(out_.characters(in_either_case(CharacterSet::of(c))));
      return out_.sequence(parts);
    }
    const std::size_t end = at_;
    skip_blanks();
    if (!take("..")) {
      if (status_.ok()) at_ = end;
      return out_.bytes(first);
    }
    skip_blanks();
    if (!take("\"")) fail("a string belongs behind '..', not " + found());
    if (!status_.ok()) return out_.nothing();
    const std::u32string from = characters(first);
    const std::u32string to = characters(take_string());
    if (from.size() != 1 || to.size() != 1) {
      fail_at(begin, "a range needs one character at both ends");
    } else if (from > to) {
      fail_at(begin, "a range whose end comes before its beginning");
    }
    if (!status_.ok()) return out_.nothing();
    return out_.characters({{from.front(), to.front()}});
  }

  static std::u32string characters(std::string_view text) {
    return to_code_points(text).value_or(std::u32string());  // take_string() gives UTF-8
  }

  // Behind '/'.
  Node regex_between_slashes(std::size_t begin) {
    const std::size_t first = at_;
    while (!ends_line() && peek() != '/') {
      if (take("\\") && ends_line()) break;
      take_character();
    }
    const std::string_view pattern = text_.substr(first, at_ - first);
    if (!take("/")) {
      fail_at(begin, "a regular expression without its closing '/'");
      return out_.nothing();
    }
    RegexOptions options;
    for (; is_lower(peek()); ++at_) {
      if (peek() == 'i') {
        options.spell = [](Expressions& out, const CharacterSet& set) {
          return out.characters(in_either_case(set));
        };
      } else if (peek() != 'u') {  // all text is Unicode
        fail("the flag " + found() + " of regular expressions is not supported");
      }
    }
    const auto has = [&](std::string_view part) {
      return pattern.find(part) != std::string_view::npos;
    };
    if (options.spell && (has("[^") || has("\\p") || has("\\P"))) {
      fail_at(begin, "the flag 'i' is not supported beside negated classes and properties");
    }
    return regex(pattern, begin, options);
  }

  Node regex(std::string_view pattern, std::size_t at, const RegexOptions& options) {
    if (!status_.ok()) return out_.nothing();
    const auto node = parse_regex(out_, pattern, options);
    if (node.ok()) return node.value();
    fail_at(at, "the regular expression: " + node.status().message(), node.status().code());
    return out_.nothing();
  }

  // Fails for a terminal that refers to itself, at the place that closes the circle. Depth first, without recursion.
  void check_terminals() {
    enum class Mark : std::uint8_t { kNone, kOpen, kDone };
    std::map<std::string, Mark> marks;
    std::vector<std::pair<const std::string*, std::size_t>> path;
    for (const auto& terminal : terminals_) {
      if (marks[terminal.first] != Mark::kNone) continue;
      marks[terminal.first] = Mark::kOpen;
      path.emplace_back(&terminal.first, 0);
      while (!path.empty()) {
        const std::string& name = *path.back().first;
        const Uses& uses = terminals_[name];
        if (path.back().second == uses.size()) {
          marks[name] = Mark::kDone;
          path.pop_back();
          continue;
        }
        const Use& use = uses[path.back().second++];
        Mark& mark = marks[use.name];
        if (mark == Mark::kOpen)
          return fail_at(use.at, "the terminal '" + use.name + "' refers to itself");
        if (mark == Mark::kDone) continue;
        mark = Mark::kOpen;
        path.emplace_back(&use.name, 0);
      }
    }
  }

  RuleId ignored_rule_ = 0;
  Node skip_ = out_.empty();  // what is ignored, any number of times
  std::vector<Node> ignored_;
  std::map<std::string, Uses> terminals_;
  Uses* uses_ = nullptr;  // of the terminal that is read; none: it is a rule
};

}  // namespace

Result<Node> parse_lark(Expressions& expressions, std::string_view text) {
  return LarkReader(expressions, text).read();
}

}  // namespace coxswain::grammar
