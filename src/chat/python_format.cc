// The % operator and str.format(). How values print: python_repr.cc.

#include "chat/python_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "chat/arithmetic.h"
#include "chat/format_spec.h"
#include "chat/html.h"
#include "chat/interpreter.h"

namespace coxswain::chat {
namespace {

// Characters beyond ASCII as escapes, as Python's ascii() has them.
Text ascii_repr(const Value& value) {
  const Text text = repr(value);
  std::string out;
  for (std::size_t at = 0; at < text.bytes.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text.bytes, at, &length);
    std::array<char, 16> buffer;
    const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
      out += buffer.data();
    }
    at += length;
  }
  return Text::like(text, std::move(out));
}

Text escaped(const Text& text) {
  return text.safe ? text : escape_html(text);
}

// The % operator on one format.
class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, const Text& format, const Value& arguments)
      : interpreter_(interpreter),
        format_(format),
        arguments_(arguments),
        is_tuple_(is_tuple(arguments)),
        is_mapping_(!is_tuple_ &&
                    (arguments.is_dict() || arguments.is_undefined() || is_indexable(arguments))) {}

  Text run() {
    const std::string& text = format_.bytes;
    Text out;
    while (at_ < text.size()) {
      const std::size_t before = out.bytes.size();
      const std::size_t percent = std::min(text.find('%', at_), text.size());
      out.append(format_.slice(at_, percent));
      at_ = percent + 1;
      if (percent < text.size()) out.append(convert_next());
      interpreter_.charge(1);
      interpreter_.grow_output(before, out.bytes.size());
    }
    const bool all_used =
        is_tuple_ ? used_ == arguments_.as_list().items.size() || has_key_ : used_ > 0;
    if (!all_used && !is_mapping_) fail("not all arguments converted during string formatting");
    return out;
  }

 private:
  const Value& next() {
    if (has_key_) {
      has_key_ = false;
      return *keyed_;
    }
    const std::size_t n = is_tuple_ ? arguments_.as_list().items.size() : 1;
    if (used_ >= n) fail("not enough arguments for format string");
    return is_tuple_ ? arguments_.as_list().items[used_++] : (++used_, arguments_);
  }

  char peek() const { return at_ < format_.bytes.size() ? format_.bytes[at_] : '\0'; }

  void read_key() {
    const std::string& text = format_.bytes;
    if (!is_mapping_) fail("format requires a mapping");
    const std::size_t begin = ++at_;
    for (std::size_t depth = 1; depth > 0; ++at_) {
      if (at_ == text.size()) fail("incomplete format key");
      depth += text[at_] == '(' ? 1 : 0;
      depth -= text[at_] == ')' ? 1 : 0;
    }
    keyed_ = arguments_.is_dict()
                 ? arguments_.as_dict().find(std::string_view(text).substr(begin, at_ - 1 - begin))
                 : nullptr;
    if (keyed_ == nullptr) fail("format names a key that is not there");
    has_key_ = true;
    used_ = 1;
  }

  int read_size() {
    if (peek() != '*') return read_format_number(format_.bytes, at_);
    ++at_;
    const Value& size = next();
    if (!size.is_integral() || format_.safe) fail("* wants int");
    if (size.as_int() > kFormatWidthMax || size.as_int() < -kFormatWidthMax)
      fail("a format width is more than " + std::to_string(kFormatWidthMax));
    return static_cast<int>(size.as_int());
  }

  Text convert_next() {
    if (peek() == '%') {
      ++at_;
      return Text("%");
    }
    if (peek() == '(') read_key();
    FormatSpec spec;
    bool left = false;
    bool zero = false;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos && peek() != '\0';
         ++at_) {
      left = left || peek() == '-';
      zero = zero || peek() == '0';
      spec.alternate = spec.alternate || peek() == '#';
      if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
    }
    spec.width = read_size();
    left = left || spec.width < 0;
    spec.width = std::abs(spec.width);
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max(0, read_size());
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    if (at_ >= format_.bytes.size()) fail("incomplete format");
    spec.type = format_.bytes[at_++];
    const Value& value = next();
    spec.align = left ? '<' : '>';
    if (zero && !left && std::string_view("srac").find(spec.type) == std::string_view::npos) {
      spec.fill = "0";
      spec.align = '=';
    }
    return convert(value, spec);
  }

  Text convert(const Value& value, FormatSpec& spec) const {
    switch (spec.type) {
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return convert_whole(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        require_defined(value);
        if (!value.is_number()) fail("must be real number, not " + type_name(value));
        return lay_out_number(real_parts(value.as_double(), spec), spec);
      case 'c':
        return pad(character(value), spec, '>');
      case 's':
      case 'r':
      case 'a': {
        const Text text = spec.type == 's'   ? to_text(value)
                          : spec.type == 'r' ? repr(value)
                                             : ascii_repr(value);
        return pad(cut_to_precision(format_.safe ? escaped(text) : text, spec), spec, '>');
      }
      default:
        fail("unsupported format character '" + std::string(1, spec.type) + "'");
    }
  }

  Text convert_whole(const Value& value, const FormatSpec& spec) const {
    require_defined(value);
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    // What a safe format is given has no digits of another base, as with Markup.
    const bool fits = decimal ? value.is_number() : value.is_whole() && !format_.safe;
    if (!fits) {
      fail(std::string("%") + spec.type + " format: " + (decimal ? "a real number" : "an integer") +
           " is required, not " + type_name(value));
    }
    NumberParts parts = integer_parts(truncate_number(value), spec.type, spec.alternate);
    const auto n_digits = static_cast<std::size_t>(std::max(0, spec.precision));
    if (parts.whole.size() < n_digits) parts.whole.insert(0, n_digits - parts.whole.size(), '0');
    return lay_out_number(parts, spec);
  }

  Text character(const Value& value) const {
    require_defined(value);
    if (value.is_string() && count_code_points(value.as_bytes()) == 1 && !format_.safe)
      return value.as_text();
    if (!value.is_whole() || format_.safe) fail("%c requires int or char");
    return Text(character_of(value));
  }

  Interpreter& interpreter_;
  const Text& format_;
  const Value& arguments_;
  bool is_tuple_;
  bool is_mapping_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
  const Value* keyed_ = nullptr;  // what %(key) names, until it is used
  bool has_key_ = false;
};

// str.format() on one format. Grammar: "Format String Syntax" of the Python library reference.
class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Arguments& arguments, bool escapes)
      : interpreter_(interpreter), arguments_(arguments), escapes_(escapes) {}

  // `nesting`: how many levels of fields inside of specifications may follow.
  Text run(const Text& format, int nesting) {
    if (nesting < 0) fail("Max string recursion exceeded");
    const std::string& text = format.bytes;
    Text out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t before = out.bytes.size();
      const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append(format.slice(at, brace));
      at = brace + 1;
      if (brace < text.size()) {
        const bool doubled = at < text.size() && text[at] == text[brace];
        if (!doubled && text[brace] == '}') fail("Single '}' encountered in format string");
        out.append(doubled ? format.slice(brace, at++) : replace_field(format, at, nesting));
      }
      interpreter_.charge(1);
      interpreter_.grow_output(before, out.bytes.size());
    }
    return out;
  }

 private:
  Text replace_field(const Text& format, std::size_t& at, int nesting) {
    const std::string& text = format.bytes;
    const std::size_t begin = at;
    while (at < text.size() && std::string_view("{}:!").find(text[at]) == std::string_view::npos)
      at = text[at] == '[' ? std::min(text.find(']', at), text.size() - 1) + 1 : at + 1;
    if (at >= text.size()) fail("expected '}' before end of string");
    if (text[at] == '{') fail("unexpected '{' in field name");
    const std::string name = text.substr(begin, at - begin);
    char conversion = '\0';
    if (text[at] == '!') {
      if (at + 2 >= text.size()) fail("end of string while looking for conversion specifier");
      conversion = text[at + 1];
      at += 2;
      if (text[at] != '}' && text[at] != ':') fail("expected ':' after conversion specifier");
    }
    Text spec;
    if (text[at] == ':') {
      const std::size_t spec_begin = ++at;
      for (std::size_t depth = 1; depth > 0; ++at) {
        if (at >= text.size()) fail("unmatched '{' in format spec");
        depth += text[at] == '{' ? 1 : 0;
        depth -= text[at] == '}' ? 1 : 0;
      }
      spec = format.slice(spec_begin, at - 1);
    } else {
      ++at;
    }
    const Value value = converted(field_value(name), conversion);
    return format_field(value, run(spec, nesting - 1).bytes);
  }

  Text format_field(const Value& value, const std::string& spec) const {
    if (escapes_ && value.is_string() && value.as_text().safe) {
      if (!spec.empty()) fail("Unsupported format specification for Markup.");
      return value.as_text();
    }
    Text out = format_value(value, spec);
    out.safe = false;
    return escapes_ ? escape_html(out) : out;
  }

  static Value converted(Value value, char conversion) {
    switch (conversion) {
      case '\0':
        return value;
      case 's': {
        Text text = to_text(value);
        text.safe = false;
        return Value::string(std::move(text));
      }
      case 'r':
        return Value::string(repr(value));
      case 'a':
        return Value::string(ascii_repr(value));
      default:
        fail("Unknown conversion specifier '" + std::string(1, conversion) + "'");
    }
  }

  static std::optional<std::size_t> as_index(std::string_view text) {
    std::size_t out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return out;
  }

  const Value& first_value(std::string_view name) const {
    interpreter_.charge(arguments_.named.size() / 64);
    const auto index = as_index(name);
    const Value* value = !index                                  ? arguments_.find_named(name)
                         : *index < arguments_.positional.size() ? &arguments_.positional[*index]
                                                                 : nullptr;
    if (value == nullptr)
      fail("format field '" + std::string(name.substr(0, 32)) + "' has no argument");
    return *value;
  }

  Value field_value(std::string name) {
    if (name.empty()) {
      if (numbering_ == Numbering::kManual)
        fail("cannot switch from manual field specification to automatic field numbering");
      numbering_ = Numbering::kAutomatic;
      name = std::to_string(n_automatic_++);
    } else if (as_index(name)) {
      if (numbering_ == Numbering::kAutomatic)
        fail("cannot switch from automatic field numbering to manual field specification");
      numbering_ = Numbering::kManual;
    }
    const std::string_view path(name);
    std::size_t at = std::min(path.find_first_of(".["), path.size());
    Value value = first_value(path.substr(0, at));
    while (at < path.size()) {
      const bool is_item = path[at] == '[';
      if (!is_item && path[at] != '.')
        fail("Only '.' or '[' may follow ']' in format field specifier");
      const std::size_t end = is_item ? path.find(']', at) : path.find_first_of(".[", at + 1);
      if (is_item && end == std::string_view::npos) fail("Missing ']' in format string");
      const std::string_view key = path.substr(at + 1, std::min(end, path.size()) - at - 1);
      if (key.empty()) fail("Empty attribute in format string");
      const auto index = as_index(key);
      value = !is_item ? interpreter_.attribute(value, key)
              : index  ? interpreter_.item(value, Value::integer(static_cast<std::int64_t>(*index)))
                       : interpreter_.item(value, Value::string(std::string(key)));
      at = is_item ? end + 1 : std::min(end, path.size());
    }
    return value;
  }

  enum class Numbering : std::uint8_t { kOpen, kAutomatic, kManual };

  Interpreter& interpreter_;
  const Arguments& arguments_;
  bool escapes_;
  Numbering numbering_ = Numbering::kOpen;
  std::size_t n_automatic_ = 0;
};

}  // namespace

Text percent_format(Interpreter& interpreter, const Text& format, const Value& arguments) {
  Text out = PercentFormatter(interpreter, format, arguments).run();
  out.safe = format.safe;
  return out;
}

Text brace_format(Interpreter& interpreter, const Text& format, const Arguments& arguments) {
  Text out = BraceFormatter(interpreter, arguments, format.safe).run(format, 2);
  out.safe = format.safe;
  return out;
}

}  // namespace coxswain::chat
