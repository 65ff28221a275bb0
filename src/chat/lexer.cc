#include "chat/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "chat/text.h"
#include "chat/value.h"

namespace coxswain::chat {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}
bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) {
  return is_name_start(c) || is_decimal(c);
}

// Longest first.
constexpr std::array<std::string_view, 27> kOperators{
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", ">", "<",
    "=",  ".",  ":",  "|",  ",",  ";",  "(", ")", "[", "]", "{", "}", "!"};

// Number of bytes of the white space that `text` starts with.
std::size_t blanks_at(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto [c, n_bytes] = base::code_point_at(text, at);
    if (!is_space(c)) break;
    at += n_bytes;
  }
  return at;
}

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_data();
    tokens_.push_back({TokenKind::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool looking_at(std::string_view text) const { return rest().starts_with(text); }

  [[noreturn]] void error(const std::string& message) const {
    fail("line " + std::to_string(line_) + ": " + message);
  }

  void advance(std::size_t n) {
    line_ +=
        static_cast<std::size_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                            source_.begin() + static_cast<std::ptrdiff_t>(at_ + n),
                                            '\n'));
    at_ += n;
    line_starting_ = n > 0 && source_[at_ - 1] == '\n';
  }

  void skip_blanks() {
    const std::size_t n = blanks_at(rest());
    if (n > 0) advance(n);
  }

  // Literal text up to the next tag, then the tag.
  void lex_data() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        emit_data(source_.size(), false, false);
        return;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    emit_data(tag, sign == '-', kind != '{' && sign != '+' && sign != '-');
    advance(2);
    if (kind == '#') {
      lex_comment();
      return;
    }
    // A sign is part of the tag only in front of something; "{{-1}}" strips, as the reference does.
    if (sign == '-' || (sign == '+' && kind == '%')) advance(1);
    if (kind == '%' && lex_raw()) return;
    tokens_.push_back(
        {kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "", line_});
    lex_expression(kind == '{');
  }

  // Text [at_, end); `strip`: blanks before the tag go; `lstrip`: blanks go if they are all that is
  // on the line.
  void emit_data(std::size_t end, bool strip, bool lstrip) {
    const bool was_line_starting = line_starting_;
    const std::size_t line = line_;
    std::string text = source_.substr(at_, end - at_);
    if (end > at_) advance(end - at_);
    if (strip) {
      text = chat::strip(Text(std::move(text)), nullptr, Side::kRight).bytes;
    } else if (lstrip) {
      const std::size_t line_begin =
          text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
      const bool at_line_start = line_begin > 0 || was_line_starting;
      if (at_line_start &&
          blanks_at(std::string_view(text).substr(line_begin)) == text.size() - line_begin) {
        text.resize(line_begin);
      }
    }
    if (!text.empty()) tokens_.push_back({TokenKind::kData, std::move(text), line});
  }

  // After the two end characters of a tag with its sign.
  void after_tag(char sign, bool trims) {
    if (sign == '-') {
      skip_blanks();
    } else if (sign != '+' && trims && looking_at("\n")) {
      advance(1);
    }
  }

  void lex_comment() {
    if (at_ == source_.size()) return;  // as in the reference
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) error("missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_tag(sign, true);
  }

  // "raw %} ... {% endraw %}" after "{%". False if this is another tag.
  bool lex_raw() {
    std::size_t p = at_;
    while (p < source_.size() && is_blank(source_[p])) ++p;
    if (source_.compare(p, 3, "raw") != 0 ||
        (p + 3 < source_.size() && is_name_part(source_[p + 3])))
      return false;
    p += 3;
    while (p < source_.size() && is_blank(source_[p])) ++p;
    const char open_sign = p < source_.size() ? source_[p] : '\0';
    if (open_sign == '-') ++p;
    if (source_.compare(p, 2, "%}") != 0) return false;
    advance(p + 2 - at_);
    after_tag(open_sign, false);  // the line break behind the opening tag stays
    const auto end = find_endraw();
    if (!end) error("missing end of raw directive");
    emit_data(end->begin, end->open_sign == '-', end->open_sign == '\0');
    advance(end->end - at_);
    after_tag(end->close_sign, true);
    return true;
  }

  struct EndRaw {
    std::size_t begin = 0;
    std::size_t end = 0;
    char open_sign = '\0';
    char close_sign = '\0';
  };

  std::optional<EndRaw> find_endraw() const {
    for (std::size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      EndRaw out{.begin = tag};
      std::size_t p = tag + 2;
      const auto take_sign = [&](char& sign) {
        if (p < source_.size() && (source_[p] == '-' || source_[p] == '+')) sign = source_[p++];
      };
      const auto skip = [&] {
        while (p < source_.size() && is_blank(source_[p])) ++p;
      };
      take_sign(out.open_sign);
      skip();
      if (source_.compare(p, 6, "endraw") != 0) continue;
      p += 6;
      skip();
      take_sign(out.close_sign);
      if (source_.compare(p, 2, "%}") != 0) continue;
      out.end = p + 2;
      return out;
    }
    return std::nullopt;
  }

  void lex_expression(bool variable) {
    const std::string_view close = variable ? "}}" : "%}";
    std::string open_brackets;
    for (;;) {
      skip_blanks();
      if (at_ >= source_.size())
        error(variable ? "missing end of print statement" : "missing end of block tag");
      if (open_brackets.empty() && lex_tag_end(variable, close)) return;
      lex_token(open_brackets);
    }
  }

  bool lex_tag_end(bool variable, std::string_view close) {
    char sign = '\0';
    if ((looking_at("-") || (looking_at("+") && !variable)) && rest().substr(1).starts_with(close))
      sign = source_[at_];
    if (sign == '\0' && !looking_at(close)) return false;
    const std::size_t line = line_;
    advance(close.size() + (sign == '\0' ? 0 : 1));
    tokens_.push_back({variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "", line});
    after_tag(sign, !variable);
    return true;
  }

  void lex_token(std::string& open_brackets) {
    const char c = source_[at_];
    if (is_name_start(c)) {
      std::size_t n = 1;
      while (at_ + n < source_.size() && is_name_part(source_[at_ + n])) ++n;
      push(TokenKind::kName, n);
    } else if (is_decimal(c)) {
      lex_number();
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else {
      lex_operator(open_brackets);
    }
  }

  void push(TokenKind kind, std::size_t n) {
    tokens_.push_back({kind, source_.substr(at_, n), line_});
    advance(n);
  }

  void lex_number() {
    std::size_t n = 0;
    const auto digits = [&](auto accepts) {
      while (at_ + n < source_.size() && (accepts(source_[at_ + n]) || source_[at_ + n] == '_'))
        ++n;
    };
    const char second = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
    if (source_[at_] == '0' && (second == 'x' || second == 'X' || second == 'b' || second == 'B' ||
                                second == 'o' || second == 'O')) {
      n = 2;
      digits(
          [](char c) { return is_decimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
      push(TokenKind::kInteger, n);
      return;
    }
    const bool is_member = at_ > 0 && source_[at_ - 1] == '.';  // "x.0.1" is (x[0])[1]
    digits(is_decimal);
    if (is_member) return push(TokenKind::kInteger, n);
    const auto peek = [&](std::size_t i) {
      return at_ + n + i < source_.size() ? source_[at_ + n + i] : '\0';
    };
    bool real = false;
    if (peek(0) == '.' && is_decimal(peek(1))) {
      real = true;
      ++n;
      digits(is_decimal);
    }
    const bool exponent = peek(0) == 'e' || peek(0) == 'E';
    if (exponent &&
        (is_decimal(peek(1)) || ((peek(1) == '+' || peek(1) == '-') && is_decimal(peek(2))))) {
      real = true;
      n += 2;
      digits(is_decimal);
    }
    push(real ? TokenKind::kFloat : TokenKind::kInteger, n);
  }

  void lex_string(char quote) {
    std::string out;
    const std::size_t line = line_;
    std::size_t p = at_ + 1;
    while (p < source_.size() && source_[p] != quote) {
      if (source_[p] != '\\') {
        out += source_[p++];
      } else {
        p = append_escape(p + 1, out);
      }
    }
    if (p >= source_.size()) error("unexpected end of a string");
    advance(p + 1 - at_);
    tokens_.push_back({TokenKind::kString, std::move(out), line});
  }

  // Reads what stands behind a backslash at `p`, as Python's unicode-escape; returns the position behind it.
  std::size_t append_escape(std::size_t p, std::string& out) {
    if (p >= source_.size()) error("unexpected end of a string");
    const char c = source_[p];
    constexpr std::string_view kFrom = "\\'\"abfnrtv";
    constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t at = kFrom.find(c); at != std::string_view::npos) {
      out += kTo[at];
      return p + 1;
    }
    if (c == '\n') return p + 1;
    if (c == 'N') error("characters cannot be given by name");
    if (c == 'x' || c == 'u' || c == 'U')
      return append_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    if (c >= '0' && c <= '7') {
      char32_t value = 0;
      std::size_t n = 0;
      while (n < 3 && p + n < source_.size() && source_[p + n] >= '0' && source_[p + n] <= '7') {
        value = value * 8 + static_cast<char32_t>(source_[p + n] - '0');
        ++n;
      }
      base::append_utf8(out, value);
      return p + n;
    }
    out += '\\';
    out += c;
    return p + 1;
  }

  std::size_t append_hex(std::size_t p, std::size_t n_digits, std::string& out) {
    char32_t value = 0;
    for (std::size_t i = 1; i <= n_digits; ++i) {
      const char c = p + i < source_.size() ? source_[p + i] : '\0';
      const int digit = is_decimal(c)          ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) error("broken escape in a string");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
      error("escape names no character");
    base::append_utf8(out, value);
    return p + 1 + n_digits;
  }

  void lex_operator(std::string& open_brackets) {
    for (const std::string_view op : kOperators) {
      if (!looking_at(op)) continue;
      if (op == "(" || op == "[" || op == "{")
        open_brackets += op == "(" ? ')' : op == "[" ? ']' : '}';
      if (op == ")" || op == "]" || op == "}") {
        if (open_brackets.empty() || open_brackets.back() != op[0])
          error("unexpected '" + std::string(op) + "'");
        open_brackets.pop_back();
      }
      push(TokenKind::kOperator, op.size());
      return;
    }
    error("unexpected character");
  }

  std::string source_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace coxswain::chat
