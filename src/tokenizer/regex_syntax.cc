#include "tokenizer/regex_syntax.h"

#include <vector>

#include "tokenizer/regex_properties.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kDepthMax = 32;

// What one escape stands for.
struct Meaning {
  std::string text;  // items of a class where is_set, otherwise an expression of its own
  bool is_set = false;
  bool is_negated = false;  // the set's complement
};

Meaning set_of(std::string items, bool is_negated) {
  return {std::move(items), true, is_negated};
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    std::string out;
    while (at_ < pattern_.size()) {
      const std::string_view rest = pattern_.substr(at_);
      if (rest.starts_with("\\y") || rest.starts_with("\\Y") || rest.starts_with("(?~"))
        return not_supported(at_, rest.substr(0, rest[0] == '(' ? 3 : 2));
      if (rest[0] == '\\') {
        append_escape(out);
      } else if (rest[0] == '[') {
        out += character_class(0);
      } else if (rest.starts_with("(?")) {
        append_group_start(out);
      } else if (rest.starts_with("{,") && rest.size() > 2 && rest[2] >= '0' && rest[2] <= '9') {
        out += "{0,";
        at_ += 2;
      } else {
        out.push_back(pattern_[at_++]);
      }
    }
    return refused_.ok() ? Result<std::string>(std::move(out)) : refused_;
  }

 private:
  static Status not_supported(std::size_t at, std::string_view part) {
    return invalid_argument("bad regular expression at offset " + std::to_string(at) + ": " +
                            std::string(part) + " is not supported");
  }

  // The escape at the cursor, whole: \p{..}, \x{..}, \uHHHH or two characters.
  std::string_view take_escape() {
    const std::size_t begin = at_;
    at_ += at_ + 1 < pattern_.size() ? 2 : 1;
    const char name = pattern_[at_ - 1];
    if ((name == 'p' || name == 'P' || name == 'x') && at_ < pattern_.size() &&
        pattern_[at_] == '{') {
      const std::size_t end = pattern_.find('}', at_);
      at_ = end == std::string_view::npos ? pattern_.size() : end + 1;
    } else if (name == 'u' && at_ + 4 <= pattern_.size()) {
      at_ += 4;
    }
    return pattern_.substr(begin, at_ - begin);
  }

  Meaning meaning_of(std::string_view escape) {
    const char name = escape.size() > 1 ? escape[1] : '\0';
    switch (name) {
      case 's':
      case 'S':
        return set_of(*posix_items("space"), name == 'S');
      case 'w':
      case 'W':
        return set_of(*posix_items("word"), name == 'W');
      case 'd':
      case 'D':
        return set_of(*posix_items("digit"), name == 'D');
      case 'h':
      case 'H':
        return set_of(*posix_items("xdigit"), name == 'H');
      case 'v':
        return {"\\x0b"};
      case 'u':
        return {escape.size() == 6 ? "\\x{" + std::string(escape.substr(2)) + "}"
                                   : std::string(escape)};
      case 'p':
      case 'P':
        return property(escape);
      default:
        return {std::string(escape)};
    }
  }

  // Outside a class, Oniguruma counts the fractions and raised digits of Latin-1 as word characters.
  static std::string word_outside_classes() {
    return *posix_items("word") + "\\xB2\\xB3\\xB9\\xBC-\\xBE";
  }

  Meaning property(std::string_view escape) {
    if (escape.size() < 5 || escape[2] != '{' || escape.back() != '}') return {std::string(escape)};
    std::string_view name = escape.substr(3, escape.size() - 4);
    const bool is_inverse = name.starts_with('^');
    if (is_inverse) name.remove_prefix(1);
    if (is_block(name) && refused_.ok()) refused_ = not_supported(at_ - escape.size(), escape);
    return set_of(property_items(name), is_inverse != (escape[1] == 'P'));
  }

  void append_escape(std::string& out) {
    const std::string_view escape = take_escape();
    if (escape == "\\b" || escape == "\\B") {
      const std::string word = "[" + word_outside_classes() + "]";
      const bool is_boundary = escape == "\\b";
      out += "(?:(?<=" + word + ")(?" + (is_boundary ? "!" : "=") + word + ")|(?<!" + word + ")(?" +
             (is_boundary ? "=" : "!") + word + "))";
      return;
    }
    if (escape == "\\O") {
      out += "(?s:.)";
      return;
    }
    Meaning meaning = meaning_of(escape);
    if (escape == "\\w" || escape == "\\W") meaning.text = word_outside_classes();
    if (!meaning.is_set) {
      out += meaning.text;
      return;
    }
    out.append(meaning.is_negated ? "[^" : "[").append(meaning.text).append("]");
  }

  // "(?" and, for options, their letters: m of Ruby is s.
  void append_group_start(std::string& out) {
    const std::size_t end = pattern_.find_first_not_of("imx-", at_ + 2);
    const bool is_options = end != std::string_view::npos && end > at_ + 2 &&
                            (pattern_[end] == ')' || pattern_[end] == ':');
    out += "(?";
    at_ += 2;
    for (; is_options && at_ < end; ++at_)
      out.push_back(pattern_[at_] == 'm' ? 's' : pattern_[at_]);
  }

  // One operand of &&: plain items, and nested classes as expressions of their own.
  struct Operand {
    std::string items;
    std::vector<std::string> nested;

    // An expression for one character of the operand.
    std::string text() const {
      std::string out = items.empty() ? std::string() : "[" + items + "]";
      for (const std::string& one : nested) out += (out.empty() ? "" : "|") + one;
      return nested.empty() || (items.empty() && nested.size() == 1) ? out : "(?:" + out + ")";
    }

    void add(const Meaning& meaning) {
      if (meaning.is_negated) {
        nested.push_back("[^" + meaning.text + "]");
      } else {
        items += meaning.text;
      }
    }
  };

  // The class at the cursor as an expression for one character.
  std::string character_class(std::size_t depth) {
    ++at_;
    const bool is_negated = at_ < pattern_.size() && pattern_[at_] == '^';
    if (is_negated) ++at_;
    std::vector<Operand> operands(1);
    bool is_first = true;
    while (at_ < pattern_.size() && (pattern_[at_] != ']' || is_first)) {
      read_item(operands, is_first, depth);
      is_first = false;
    }
    if (at_ == pattern_.size()) return "[" + operands[0].items;  // does not end: an error for PCRE2
    ++at_;
    const bool is_plain = operands.size() == 1 && operands[0].nested.empty();
    if (is_plain) return (is_negated ? "[^" : "[") + operands[0].items + "]";
    std::string out = operands.back().text();
    for (std::size_t i = operands.size() - 1; i-- > 0;)
      out.insert(0, "(?:(?=" + operands[i].text() + ")").append(")");
    return is_negated ? "(?:(?!" + out + ")(?s:.))" : out;
  }

  void read_item(std::vector<Operand>& operands, bool is_first, std::size_t depth) {
    const std::string_view rest = pattern_.substr(at_);
    if (rest[0] == '\\') return operands.back().add(meaning_of(take_escape()));
    if (rest.starts_with("[:")) {
      if (take_posix_bracket(operands.back())) return;
    }
    if (rest[0] == '[' && depth < kDepthMax) {
      operands.back().nested.push_back(character_class(depth + 1));
      return;
    }
    if (rest.starts_with("&&")) {
      operands.emplace_back();
      at_ += 2;
      return;
    }
    if (is_first && rest[0] == ']') operands.back().items.push_back('\\');
    operands.back().items.push_back(rest[0]);
    ++at_;
  }

  bool take_posix_bracket(Operand& operand) {
    const std::size_t end = pattern_.find(":]", at_);
    if (end == std::string_view::npos) return false;
    std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    const bool is_negated = name.starts_with('^');
    if (is_negated) name.remove_prefix(1);
    const auto items = posix_items(name);
    if (!items) return false;
    operand.add(set_of(*items, is_negated));
    at_ = end + 2;
    return true;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  Status refused_;  // the first block
};

}  // namespace

Result<std::string> to_pcre2(std::string_view pattern) {
  return Rewriter(pattern).run();
}

}  // namespace coxswain::tokenizer
