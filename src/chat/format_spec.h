#pragma once
// Format specifications: what stands behind the colon of a field of str.format() and, in fewer
// words, behind the '%' of the % operator. Source: "Format Specification Mini-Language" of the
// Python library reference.

#include <cstddef>
#include <string>
#include <string_view>

#include "chat/value.h"

namespace coxswain::chat {

// Widths and precisions beyond this are refused: they are output size in disguise.
inline constexpr int kFormatWidthMax = 4096;

struct FormatSpec {
  std::string fill = " ";  // one code point
  char align = '\0';       // '<', '>', '^', '='; none: by the type of the value
  char sign = '-';         // '+', '-', ' '
  bool no_negative_zero = false;
  bool alternate = false;
  char grouping = '\0';  // ',' or '_'
  int width = 0;
  int precision = -1;
  char type = '\0';
};

// Throws RenderError for what is no specification.
FormatSpec read_format_spec(std::string_view text);
// The number at `at`, which moves behind it; 0 if there is none.
int read_format_number(std::string_view text, std::size_t& at);

// format(value, spec) of Python.
Text format_value(const Value& value, std::string_view spec);

// The digits of a number before they are padded.
struct NumberParts {
  bool negative = false;
  std::string prefix{};  // "0x"
  std::string whole{};   // in front of the point
  std::string rest{};    // the point, what follows, an exponent, a percent sign
};
NumberParts integer_parts(const Value& whole, char type, bool alternate);
// What the number `code` names, for %c, {:c} and translate(). Throws for what is no character.
std::string character_of(const Value& code);
// Types: e E f F g G % and none, which is repr() as far as there is no precision.
NumberParts real_parts(double value, const FormatSpec& spec);
Text lay_out_number(const NumberParts& parts, const FormatSpec& spec);
Text pad(const Text& text, const FormatSpec& spec, char default_align);
// The first `spec.precision` code points.
Text cut_to_precision(const Text& text, const FormatSpec& spec);

}  // namespace coxswain::chat
