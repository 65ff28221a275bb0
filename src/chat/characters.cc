// Classes of characters, and upper, lower and title case of texts.

#include <utf8proc.h>

#include "chat/text.h"

namespace coxswain::chat {
namespace {

constexpr char32_t kSharpS = 0xDF;
constexpr char32_t kCapitalSigma = 0x3A3;

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cased(char32_t c) {
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

// The one mapping to several characters that common text has.
void append_upper(char32_t c, std::string& out) {
  if (c == kSharpS) {
    out += "SS";
  } else {
    base::append_utf8(out,
                      static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(char32_t c, std::string& out) {
  if (c == kSharpS) {
    out += "Ss";
  } else {
    base::append_utf8(out,
                      static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_lower(char32_t c, std::string& out) {
  base::append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

// Lower case of the characters of one text, in their order. A sigma at the end of a word has a form of its own.
class Lowering {
 public:
  explicit Lowering(std::string_view text) : text_(text) {}

  void append(char32_t c, std::string& out) {
    const std::size_t next = at_ + base::code_point_at(text_, at_).n_bytes;
    const bool ends_word =
        c == kCapitalSigma && inside_ &&
        (next == text_.size() || !is_letter(base::code_point_at(text_, next).value));
    ends_word ? base::append_utf8(out, 0x3C2) : append_lower(c, out);
    skip(c);
  }
  // Goes on behind `c`, which the caller appended otherwise.
  void skip(char32_t c) {
    at_ += base::code_point_at(text_, at_).n_bytes;
    inside_ = is_letter(c);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  bool inside_ = false;  // the character before is a letter
};

// True if the text has cased characters, and none of category `wrong` or in title case.
bool has_only_case(std::string_view text, utf8proc_category_t wrong) {
  bool cased = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, n_bytes] = base::code_point_at(text, at);
    const auto category = category_of(c);
    if (category == wrong || category == UTF8PROC_CATEGORY_LT) return false;
    cased = cased || is_cased(c);
    at += n_bytes;
  }
  return cased;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  if (c == 0x85) return true;
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_letter(char32_t c) {
  const auto category = category_of(c);
  return is_cased(c) || category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_ND;
}

bool is_number(char32_t c) {
  const auto category = category_of(c);
  return is_digit(c) || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_printable(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

Text to_upper(const Text& text) {
  return map_code_points(text,
                         [](char32_t c, std::size_t, std::string& out) { append_upper(c, out); });
}

Text to_lower(const Text& text) {
  Lowering lowering(text.bytes);
  return map_code_points(
      text, [&](char32_t c, std::size_t, std::string& out) { lowering.append(c, out); });
}

Text to_title(const Text& text) {
  Lowering lowering(text.bytes);
  bool inside = false;
  return map_code_points(text, [&](char32_t c, std::size_t, std::string& out) {
    if (inside) {
      lowering.append(c, out);
    } else {
      append_title(c, out);
      lowering.skip(c);
    }
    inside = is_cased(c);
  });
}

Text to_capitalized(const Text& text) {
  Lowering lowering(text.bytes);
  return map_code_points(text, [&](char32_t c, std::size_t index, std::string& out) {
    if (index > 0) {
      lowering.append(c, out);
    } else {
      append_title(c, out);
      lowering.skip(c);
    }
  });
}

bool is_upper_text(std::string_view text) {
  return has_only_case(text, UTF8PROC_CATEGORY_LL);
}
bool is_lower_text(std::string_view text) {
  return has_only_case(text, UTF8PROC_CATEGORY_LU);
}

}  // namespace coxswain::chat
