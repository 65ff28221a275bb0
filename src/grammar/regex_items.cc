#include "grammar/regex_items.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "grammar/expression.h"
#include "grammar/regex_classes.h"

namespace coxswain::grammar::regex {
namespace {

using Kind = Item::Kind;

constexpr std::size_t kDepthMax = 200;         // of groups
constexpr std::uint32_t kRepeatMax = 100'000;  // of {n,m}
constexpr std::size_t kRangesMax = 1'000'000;  // of all classes of a pattern

// From a pattern to items: recursive descent.
class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Result<ItemPtr> parse() {
    if (!base::is_utf8(pattern_)) return invalid_argument("the pattern is not UTF-8");
    ItemPtr out = parse_choice(0);
    if (status_.ok() && at_ < pattern_.size()) fail("a ')' that closes nothing");
    if (!status_.ok()) return status_;
    return out;
  }

 private:
  void fail(std::string_view what, Code code = Code::kInvalidArgument) {
    if (!status_.ok()) return;
    status_ = {code,
               ErrorKind::kValidation,
               "at byte " + std::to_string(at_) + " of the pattern: " + std::string(what)};
  }

  bool at_end() const { return at_ == pattern_.size() || !status_.ok(); }
  char peek() const { return at_ < pattern_.size() ? pattern_[at_] : '\0'; }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_character() {
    const base::CodePoint next = base::code_point_at(pattern_, at_);
    at_ += next.n_bytes;
    return next.value;
  }

  ItemPtr parse_choice(std::size_t depth) {
    if (depth > kDepthMax) {
      fail("groups nest more than " + std::to_string(kDepthMax) + " deep",
           Code::kResourceExhausted);
      return make_item({});
    }
    std::vector<ItemPtr> branches = {parse_sequence(depth)};
    while (status_.ok() && take("|")) branches.push_back(parse_sequence(depth));
    if (branches.size() == 1) return branches.front();
    return make_item({.kind = Kind::kChoice, .parts = std::move(branches)});
  }

  ItemPtr parse_sequence(std::size_t depth) {
    std::vector<ItemPtr> parts;
    while (!at_end() && peek() != '|' && peek() != ')') {
      ItemPtr atom = parse_atom(depth);
      if (!status_.ok()) break;
      parts.push_back(parse_repeats(std::move(atom)));
    }
    if (parts.size() == 1) return parts.front();
    return make_item({.parts = std::move(parts)});
  }

  ItemPtr parse_atom(std::size_t depth) {
    if (take("(")) return parse_group(depth);
    if (take("[")) return make_set(parse_class());
    if (take(".")) return make_set(line_characters());
    if (take("^")) return make_item({.kind = Kind::kBegin});
    if (take("$")) return make_item({.kind = Kind::kEnd});
    if (take("\\")) return parse_escape();
    const char next = peek();
    if (next == '*' || next == '+' || next == '?') {
      fail(std::string("'") + next + "' repeats nothing");
      return make_item({});
    }
    return make_set(CharacterSet::of(take_character()));
  }

  void count_ranges(const CharacterSet& set) {
    n_ranges_ += set.ranges().size();
    if (n_ranges_ > kRangesMax) {
      fail("the classes up to here have more than " + std::to_string(kRangesMax) +
               " ranges of characters",
           Code::kResourceExhausted);
    }
  }

  ItemPtr make_set(CharacterSet set) {
    count_ranges(set);
    return make_item({.kind = Kind::kSet, .set = std::move(set)});
  }

  ItemPtr parse_group(std::size_t depth) {
    if (peek() == '?') {
      if (take("?:")) {
      } else if (take("?<=") || take("?<!") || take("?=") || take("?!")) {
        fail("look-around is not supported");
      } else if (take("?P<") || take("?<")) {
        while (!at_end() && peek() != '>') take_character();
        if (!take(">")) fail("a name of a group without its '>'");
      } else {
        fail("this kind of group is not supported");
      }
    }
    ItemPtr inside = parse_choice(depth + 1);
    if (status_.ok() && !take(")")) fail("a group without its ')'");
    return inside;
  }

  ItemPtr parse_escape() {
    if (at_end()) {
      fail("a pattern may not end with '\\'");
      return make_item({});
    }
    if (take("A")) return make_item({.kind = Kind::kBegin});
    if (take("Z") || take("z")) return make_item({.kind = Kind::kEnd});
    if (peek() == 'b' || peek() == 'B') fail("word boundaries are not supported");
    if (peek() >= '1' && peek() <= '9') fail("references to groups are not supported");
    if (peek() == 'k') fail("references to groups are not supported");
    return make_set(parse_escaped_set(false));
  }

  // Behind '\'.
  CharacterSet parse_escaped_set(bool in_class) {
    if (at_end()) {
      fail("a pattern may not end with '\\'");
      return {};
    }
    const std::size_t begin = at_;
    const char32_t c = take_character();
    if (auto named = escaped_class(c)) return *named;
    switch (c) {
      case 't':
        return CharacterSet::of('\t');
      case 'n':
        return CharacterSet::of('\n');
      case 'r':
        return CharacterSet::of('\r');
      case 'f':
        return CharacterSet::of('\f');
      case 'v':
        return CharacterSet::of('\v');
      case '0':
        return CharacterSet::of(0);
      case 'x':
        return CharacterSet::of(parse_hex(2));
      case 'U':
        return CharacterSet::of(parse_hex(8));
      case 'u':
        return CharacterSet::of(parse_unicode());
      case 'c': {
        const char32_t letter = at_end() ? 0 : take_character();
        if (!is_ascii_letter(letter)) fail("\\c needs a letter");
        return CharacterSet::of(letter % 32);
      }
      case 'p':
      case 'P':
        return parse_property(c == 'P');
      case 'b':
        if (in_class) return CharacterSet::of('\b');
        break;
      default:
        break;
    }
    if (is_ascii_letter(c) || (c >= '1' && c <= '9')) {
      at_ = begin;
      fail(std::string("the escape \\") + static_cast<char>(c) + " is not known");
    }
    return CharacterSet::of(c);
  }

  static bool is_ascii_letter(char32_t c) { return (c | 32U) >= 'a' && (c | 32U) <= 'z'; }

  char32_t parse_hex(std::size_t n_digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < n_digits; ++i) {
      const char digit = peek();
      const bool decimal = digit >= '0' && digit <= '9';
      const char lower = static_cast<char>(digit | 32);
      if (at_end() || (!decimal && (lower < 'a' || lower > 'f'))) {
        fail(std::to_string(n_digits) + " hexadecimal digits belong here");
        return 0;
      }
      value = value * 16 + static_cast<char32_t>(decimal ? digit - '0' : lower - 'a' + 10);
      ++at_;
    }
    if (value > kCodePointMax) fail("there is no character with this number");
    return value;
  }

  char32_t parse_unicode() {
    if (take("{")) {
      char32_t value = 0;
      std::size_t n = 0;
      for (; peek() != '}' && status_.ok() && n < 6; ++n) value = value * 16 + parse_hex(1);
      if (!take("}") || n == 0) fail("\\u{...} needs one to six hexadecimal digits");
      if (value > kCodePointMax) fail("there is no character with this number");
      return value;
    }
    const char32_t value = parse_hex(4);
    if (value < 0xD800 || value > 0xDFFF) return value;
    if (value < 0xDC00 && take("\\u")) {  // the two halves of one character
      const char32_t low = parse_hex(4);
      if (low >= 0xDC00 && low <= 0xDFFF)
        return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
    fail("half of a pair of surrogates is no character");
    return 0;
  }

  CharacterSet parse_property(bool negated) {
    if (!take("{")) {
      fail("\\p needs a name in braces");
      return {};
    }
    const std::size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) {
      fail("\\p{ without its '}'");
      return {};
    }
    const std::string_view name = pattern_.substr(at_, end - at_);
    const auto set = property_characters(name);
    if (!set) fail("the property '" + std::string(name) + "' is not known");
    at_ = end + 1;
    if (!set) return {};
    return negated ? set->complement() : *set;
  }

  CharacterSet parse_class() {
    const bool negated = take("^");
    CharacterSet set;
    if (peek() == ']') fail("a class may not be empty; write '\\]' for a bracket");
    while (!at_end() && peek() != ']') {
      const CharacterSet first = parse_member();
      count_ranges(first);
      const bool is_range = peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!is_range) {
        set.add(first);
        continue;
      }
      ++at_;
      const CharacterSet last = parse_member();
      if (!status_.ok()) break;
      const auto single = [](const CharacterSet& member) {
        return member.ranges().size() == 1 &&
               member.ranges().front().first == member.ranges().front().last;
      };
      if (!single(first) || !single(last)) {
        fail("a range needs a character at both ends");
        break;
      }
      if (first.ranges().front().first > last.ranges().front().first) {
        fail("a range whose end comes before its beginning");
        break;
      }
      set.add(first.ranges().front().first, last.ranges().front().first);
    }
    if (status_.ok() && !take("]")) fail("a class without its ']'");
    return negated ? set.complement() : set;
  }

  CharacterSet parse_member() {
    if (at_end()) {
      fail("a class without its ']'");
      return {};
    }
    if (take("\\")) return parse_escaped_set(true);
    if (pattern_.substr(at_).starts_with("[:")) fail("POSIX classes are not supported");
    return CharacterSet::of(take_character());
  }

  ItemPtr parse_repeats(ItemPtr atom) {
    bool repeated = false;
    while (status_.ok()) {
      std::uint32_t min = 0;
      std::uint32_t max = kUnbounded;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (!take_counts(min, max)) {
        break;
      }
      if (repeated) {
        fail("a repetition of a repetition needs a group");
        break;
      }
      repeated = true;
      static_cast<void>(take("?"));  // lazy: the same texts
      if (peek() == '+') fail("possessive repetition is not supported");
      atom = make_item({.kind = Kind::kRepeat, .parts = {std::move(atom)}, .min = min, .max = max});
    }
    return atom;
  }

  // {n}, {n,}, {n,m}, {,m}; any other brace stands for itself.
  bool take_counts(std::uint32_t& min, std::uint32_t& max) {
    if (peek() != '{') return false;
    std::size_t at = at_ + 1;
    const auto number = [&]() -> std::optional<std::uint64_t> {
      if (at >= pattern_.size() || pattern_[at] < '0' || pattern_[at] > '9') return std::nullopt;
      std::uint64_t value = 0;
      for (; at < pattern_.size() && pattern_[at] >= '0' && pattern_[at] <= '9'; ++at)
        value = std::min<std::uint64_t>(value * 10 + static_cast<std::uint64_t>(pattern_[at] - '0'),
                                        kUnbounded);
      return value;
    };
    const auto low = number();
    auto high = low;
    if (at < pattern_.size() && pattern_[at] == ',') {
      ++at;
      high = number();
      if (!low && !high) return false;
      if (!high) high = kUnbounded;
    } else if (!low) {
      return false;
    }
    if (at >= pattern_.size() || pattern_[at] != '}') return false;
    const std::uint64_t least = low.value_or(0);
    if (least > *high) {
      fail("a repetition of at least " + std::to_string(least) + " and at most " +
           std::to_string(*high));
      return false;
    }
    if (least > kRepeatMax || (*high != kUnbounded && *high > kRepeatMax)) {
      fail("a repetition of more than " + std::to_string(kRepeatMax), Code::kResourceExhausted);
      return false;
    }
    at_ = at + 1;
    min = static_cast<std::uint32_t>(least);
    max = static_cast<std::uint32_t>(*high);
    return true;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::size_t n_ranges_ = 0;
  Status status_;
};

}  // namespace

ItemPtr make_item(Item item) {
  item.has_anchor = item.kind == Kind::kBegin || item.kind == Kind::kEnd ||
                    std::any_of(item.parts.begin(), item.parts.end(), [](const ItemPtr& part) {
                      return part->has_anchor;
                    });
  return std::make_shared<const Item>(std::move(item));
}

Result<ItemPtr> parse_items(std::string_view pattern) {
  return Parser(pattern).parse();
}

}  // namespace coxswain::grammar::regex
