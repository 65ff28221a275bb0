#include "tokenizer/regex_syntax.h"

#include <vector>

namespace coxswain::tokenizer {
namespace {

constexpr std::string_view kSpaceItems = "\\p{Z}\\x09-\\x0d\\x{85}";
constexpr std::string_view kWordItems = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}";
constexpr std::size_t kDepthMax = 32;

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    std::string out;
    while (at_ < pattern_.size()) {
      if (pattern_[at_] == '\\') {
        append_escape(out);
      } else if (pattern_[at_] == '[') {
        out += character_class(0);
      } else {
        out.push_back(pattern_[at_++]);
      }
    }
    return out;
  }

 private:
  // The escape at the cursor, whole: \p{..}, \x{..} or two characters.
  std::string_view take_escape() {
    const std::size_t begin = at_;
    at_ += at_ + 1 < pattern_.size() ? 2 : 1;
    const char name = pattern_[at_ - 1];
    if ((name == 'p' || name == 'P' || name == 'x') && at_ < pattern_.size() &&
        pattern_[at_] == '{') {
      const std::size_t end = pattern_.find('}', at_);
      at_ = end == std::string_view::npos ? pattern_.size() : end + 1;
    }
    return pattern_.substr(begin, at_ - begin);
  }

  void append_escape(std::string& out) {
    const std::string_view escape = take_escape();
    const auto set = [&](std::string_view open, std::string_view items) {
      out.append(open).append(items).append("]");
    };
    if (escape == "\\s") return set("[", kSpaceItems);
    if (escape == "\\S") return set("[^", kSpaceItems);
    if (escape == "\\w") return set("[", kWordItems);
    if (escape == "\\W") return set("[^", kWordItems);
    out += escape;
  }

  static void append_class_escape(std::string& items, std::string_view escape) {
    if (escape == "\\s") {
      items += kSpaceItems;
    } else if (escape == "\\w") {
      items += kWordItems;
    } else {
      items += escape;
    }
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
      out = "(?:(?=" + operands[i].text() + ")" + out + ")";
    return is_negated ? "(?:(?!" + out + ")(?s:.))" : out;
  }

  void read_item(std::vector<Operand>& operands, bool is_first, std::size_t depth) {
    const std::string_view rest = pattern_.substr(at_);
    if (rest[0] == '\\') return append_class_escape(operands.back().items, take_escape());
    if (rest.starts_with("[:")) {
      const std::size_t end = rest.find(":]");
      if (end != std::string_view::npos) {
        operands.back().items += rest.substr(0, end + 2);
        at_ += end + 2;
        return;
      }
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

  std::string_view pattern_;
  std::size_t at_ = 0;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  return Rewriter(pattern).run();
}

}  // namespace coxswain::tokenizer
