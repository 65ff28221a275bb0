#pragma once
// Text: a UTF-8 string that remembers which of its bytes came from users.
//
// Marks are sorted, disjoint, non-empty byte spans. Every operation that makes a text from others carries them
// along. Indices that a template sees count code points, as Python's do; helpers here convert. Reading and writing
// UTF-8 itself: base/utf8.h.
//
// Thread rule: plain values. Invariant: the bytes are valid UTF-8.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

#include "base/utf8.h"
#include "chat/span_list.h"

namespace coxswain::chat {

struct Text {
  std::string bytes;
  SpanList marks;
  // Went through `safe` or `escape`: `+` with a text that did not escapes that text first, as the
  // reference's Markup does.
  bool safe = false;

  Text() = default;
  explicit Text(std::string text) : bytes(std::move(text)) {}
  static Text untrusted(std::string text);

  bool empty() const { return bytes.empty(); }
  bool is_marked() const { return !marks.empty(); }
  void append(const Text& other);
  void append(std::string_view trusted) { bytes.append(trusted); }
  Text slice(std::size_t begin, std::size_t end) const;  // bytes [begin, end)
};

// Byte offsets of every code point and the end: size = count + 1.
std::vector<std::size_t> code_point_offsets(std::string_view text);
// The bytes of the code point at `index`, counted from the end if negative; empty if there is none.
TextSpan code_point_span(std::string_view text, std::int64_t index);

// Where `part` begins at or behind `from`, npos if nowhere. Unlike std::string::find() never slower than
// both lengths together.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);

// Each code point replaced by what `map` appends; marks follow their characters.
Text map_code_points(
    const Text& text,
    const std::function<void(char32_t c, std::size_t index, std::string& out)>& map);

enum class Side : std::uint8_t { kLeft, kRight, kBoth };
// Removes code points of `set` (white space if null) from the ends.
Text strip(const Text& text, const std::string* set, Side side);

Text replace_all(const Text& text, std::string_view from, const Text& to, std::size_t count_max);
// At most `splits_max` cuts; an empty separator pointer splits at runs of white space.
std::vector<Text> split(const Text& text, const std::string* separator, std::size_t splits_max);
std::vector<Text> split_right(const Text& text,
                              const std::string* separator,
                              std::size_t splits_max);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
// & < > " ' as HTML entities; the result is safe.
Text escape_html(const Text& text);

// What Python's str knows of characters (characters.cc), from Unicode's categories and simple case mappings.
bool is_space(char32_t c);  // str.isspace(), and what str.strip() takes as white space
bool is_letter(char32_t c);
bool is_digit(char32_t c);
bool is_number(char32_t c);  // digits, and numbers of any other kind
bool is_printable(char32_t c);

Text to_upper(const Text& text);
Text to_lower(const Text& text);
Text to_title(const Text& text);        // str.title
Text to_capitalized(const Text& text);  // str.capitalize
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);

}  // namespace coxswain::chat
