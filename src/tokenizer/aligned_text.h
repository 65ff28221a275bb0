#pragma once
// AlignedText: a text on its way through normalizers, and for each of its bytes the place in the
// input that it came from.
//
// A text that no normalizer has changed is a view of the input without any table; the first change
// makes a copy with OriginRuns, unless places are not asked for: such a text only knows how many of
// its bytes come from the first character of the input. Every byte of a character has the span of
// the whole character, so any range of bytes maps to whole characters of the input.
// Thread rule: one thread, const methods too.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <coxswain/types.h>

#include "tokenizer/origin_runs.h"

namespace coxswain::tokenizer {

class AlignedText {
 public:
  AlignedText() = default;
  // `input` begins at byte `base` of the text being encoded and must outlive this object.
  // Changed copies have no places unless `keeps_origins`.
  AlignedText(std::string_view input, std::size_t base, bool keeps_origins = true)
      : view_(input), base_(static_cast<std::uint32_t>(base)), keeps_origins_(keeps_origins) {}
  // REQUIRES: origins.size() == text.size().
  AlignedText(std::string text, OriginRuns origins)
      : owned_(std::move(text)), origins_(std::move(origins)), is_view_(false) {}
  // A text without places, whose first `n_first_bytes` bytes come from byte 0 of the input.
  static AlignedText without_origins(std::string text, std::size_t n_first_bytes) {
    AlignedText out(std::move(text), OriginRuns());
    out.n_first_bytes_ = n_first_bytes;
    out.keeps_origins_ = false;
    return out;
  }

  std::string_view text() const { return is_view_ ? view_ : std::string_view(owned_); }
  std::size_t size() const { return text().size(); }
  bool empty() const { return size() == 0; }
  bool is_view() const { return is_view_; }
  bool keeps_origins() const { return keeps_origins_; }
  // Whether origin() and origin_of_byte() know the places.
  bool has_origins() const { return is_view_ || keeps_origins_; }

  // Whether what byte `at` stands for begins at byte 0 of the input.
  bool begins_input(std::size_t at) const {
    return has_origins() ? origin_of_byte(at).begin == 0 : at < n_first_bytes_;
  }

  // The part of the input that bytes [begin, end) stand for. An empty range maps to an empty span.
  // Always empty and 0 where the places are not known.
  TextSpan origin(std::size_t begin, std::size_t end) const;
  Origin origin_of_byte(std::size_t at) const;
  // The places of bytes [begin, end), for the text that has them next. REQUIRES: has_origins().
  void add_origins_to(OriginRuns& out, std::size_t begin, std::size_t end) const;

  // Bytes [begin, end) as a text of their own; a view stays a view.
  AlignedText slice(std::size_t begin, std::size_t end) const;

 private:
  std::string_view view_;
  std::string owned_;
  OriginRuns origins_;
  std::size_t n_first_bytes_ = 0;  // without origins
  std::uint32_t base_ = 0;
  bool is_view_ = true;
  bool keeps_origins_ = true;
};

// Writes a changed copy of an AlignedText from left to right.
class AlignedBuilder {
 public:
  explicit AlignedBuilder(const AlignedText& source);

  // Copies bytes [begin, end) of the source. REQUIRES: both on character boundaries.
  void keep(std::size_t begin, std::size_t end);
  // Adds `bytes` that stand for source bytes [begin, end); with begin == end, for the character
  // there (or the last one, at the end of the source).
  void put(std::string_view bytes, std::size_t begin, std::size_t end);

  std::size_t size() const { return text_.size(); }
  AlignedText finish() && {
    if (!source_.keeps_origins())
      return AlignedText::without_origins(std::move(text_), n_first_bytes_);
    return {std::move(text_), std::move(origins_)};
  }

 private:
  void grow(std::size_t n_more, std::size_t done);

  const AlignedText& source_;
  std::string text_;
  OriginRuns origins_;
  std::size_t n_first_bytes_ = 0;
};

// `input` as valid UTF-8: every maximal broken subpart becomes U+FFFD.
AlignedText sanitized(std::string_view input, bool keeps_origins = true);

}  // namespace coxswain::tokenizer
