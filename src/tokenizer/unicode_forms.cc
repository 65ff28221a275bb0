// NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15) on libutf8proc, piece by piece: the text is cut
// where a normalization cannot reach across, and a piece that is one stable character is left alone.

#include <algorithm>
#include <array>
#include <utf8proc.h>
#include <vector>

#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_reference.h"

namespace coxswain::tokenizer {
namespace {

constexpr char32_t kFirstCombining = 0x300;  // all characters below are starters that join nothing

bool is_hangul_part(char32_t c) {
  return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2);
}
bool is_hangul_syllable(char32_t c) {
  return c >= 0xAC00 && c <= 0xD7A3;
}

bool is_plain_starter(char32_t c) {
  if (!reference_moves(c)) return true;
  // The upper bit of comb_index says that the character can be the second of a composed pair.
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  const bool joins_backwards =
      property->comb_index != 0xFFFF && (property->comb_index & 0x8000) != 0;
  return property->combining_class == 0 && !joins_backwards && !is_hangul_part(c);
}

bool decomposes(char32_t c) {
  if (is_hangul_syllable(c)) return true;
  return reference_decomposes(c) &&
         utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->decomp_seqindex != 0xFFFF;
}

// Whether no normalization form joins or reorders `c` with what stands before it.
bool starts_piece(char32_t c) {
  if (c < kFirstCombining) return true;
  if (!is_plain_starter(c)) return false;
  if (!decomposes(c) || is_hangul_syllable(c)) return true;
  utf8proc_int32_t parts[32];
  int last_class = 0;
  const auto n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c),
                              parts,
                              32,
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT),
                              &last_class);
  return n <= 0 || is_plain_starter(static_cast<char32_t>(parts[0]));
}

bool is_stable_alone(char32_t c, UnicodeForm form) {
  if (c < 0x80) return true;
  if (form == UnicodeForm::kNfc && (c < kFirstCombining || is_hangul_syllable(c))) return true;
  return !decomposes(c);
}

// Whether a piece that starts with `c` and is `is_single` character long stays as it is.
bool is_unchanged(char32_t c, bool is_single, UnicodeForm form) {
  return is_single && is_stable_alone(c, form);
}

// End of the piece that starts at `at`.
std::size_t piece_end(std::string_view text, std::size_t at) {
  const CodePoint first = code_point_at(text, at);
  std::size_t end = at + first.n_bytes;
  if (!reference_decomposes(first.value) || !reference_moves(first.value)) return end;
  while (end < text.size()) {
    const CodePoint next = code_point_at(text, end);
    if (starts_piece(next.value)) break;
    end += next.n_bytes;
  }
  return end;
}

bool composes(UnicodeForm form) {
  return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
}

utf8proc_option_t options_of(UnicodeForm form) {
  int options = UTF8PROC_STABLE;
  options |= composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

int combining_class(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Marks between two starters by class, those of one class as they stand. The library's own ordering
// takes the square of their number.
void order_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto first = std::find_if(at, characters.end(), is_mark);
    at = std::find_if_not(first, characters.end(), is_mark);
    std::stable_sort(first, at, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
  }
}

// Appends the normal form of a piece; `characters` is room that is used again.
void append_piece(std::string& out,
                  std::string_view piece,
                  UnicodeForm form,
                  std::vector<utf8proc_int32_t>& characters) {
  constexpr std::size_t kPartsMax = 32;  // Unicode's longest decomposition has 18
  const utf8proc_option_t options = options_of(form);
  characters.clear();
  for (std::size_t at = 0; at < piece.size();) {
    const CodePoint c = code_point_at(piece, at);
    at += c.n_bytes;
    std::array<utf8proc_int32_t, kPartsMax> parts{};
    int last_class = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c.value), parts.data(), kPartsMax, options, &last_class);
    if (n < 0 || n > static_cast<utf8proc_ssize_t>(kPartsMax)) {
      characters.push_back(static_cast<utf8proc_int32_t>(c.value));
    } else {
      characters.insert(characters.end(), parts.begin(), parts.begin() + n);
    }
  }
  order_marks(characters);
  if (composes(form)) {
    const auto n = utf8proc_normalize_utf32(
        characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), options);
    if (n >= 0) characters.resize(static_cast<std::size_t>(n));
  }
  for (const utf8proc_int32_t c : characters) append_utf8(out, static_cast<char32_t>(c));
}

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form) : form_(form) {}

  Status apply(AlignedText& text) const override {
    const std::size_t first = first_change(text.text());
    if (first == text.size()) return {};
    const std::string_view source = text.text();
    AlignedBuilder out(text);
    out.keep(0, first);
    std::size_t kept_to = first;
    std::string piece;
    std::vector<utf8proc_int32_t> characters;
    for (std::size_t at = first; at < source.size();) {
      const std::size_t end = piece_end(source, at);
      const CodePoint c = code_point_at(source, at);
      if (!is_unchanged(c.value, at + c.n_bytes == end, form_)) {
        piece.clear();
        append_piece(piece, source.substr(at, end - at), form_, characters);
        if (piece != source.substr(at, end - at)) {
          out.keep(kept_to, at);
          out.put(piece, at, end);
          kept_to = end;
        }
      }
      at = end;
    }
    out.keep(kept_to, source.size());
    AlignedText changed = std::move(out).finish();
    text = std::move(changed);
    return {};
  }

 private:
  std::size_t first_change(std::string_view text) const {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = piece_end(text, at);
      const CodePoint c = code_point_at(text, at);
      if (!is_unchanged(c.value, at + c.n_bytes == end, form_)) return at;
      at = end;
    }
    return text.size();
  }

  UnicodeForm form_;
};

}  // namespace

std::unique_ptr<Normalizer> make_unicode_normalizer(UnicodeForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

}  // namespace coxswain::tokenizer
