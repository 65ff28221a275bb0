#pragma once
// AlignedText: a text on its way through normalizers, and for each of its bytes the place in the
// input that it came from.
//
// A text that no normalizer has changed is a view of the input without any table; the first change
// makes a copy with one TextSpan of 32-bit numbers for each byte. Every byte of a character has the
// span of the whole character, so any range of bytes maps to whole characters of the input.
// Thread rule: one thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::tokenizer {

// [begin, end) in bytes of the input; 32 bits, because there is one for each byte.
struct Origin {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

class AlignedText {
 public:
  AlignedText() = default;
  // `input` begins at byte `base` of the text being encoded and must outlive this object.
  AlignedText(std::string_view input, std::size_t base)
      : view_(input), base_(static_cast<std::uint32_t>(base)) {}
  AlignedText(std::string text, std::vector<Origin> origins)
      : owned_(std::move(text)), origins_(std::move(origins)), is_view_(false) {}

  std::string_view text() const { return is_view_ ? view_ : std::string_view(owned_); }
  std::size_t size() const { return text().size(); }
  bool empty() const { return size() == 0; }
  bool is_view() const { return is_view_; }

  // The part of the input that bytes [begin, end) stand for. An empty range maps to an empty span.
  TextSpan origin(std::size_t begin, std::size_t end) const;
  Origin origin_of_byte(std::size_t at) const;

  // Bytes [begin, end) as a text of their own; a view stays a view.
  AlignedText slice(std::size_t begin, std::size_t end) const;

 private:
  std::string_view view_;
  std::string owned_;
  std::vector<Origin> origins_;
  std::uint32_t base_ = 0;
  bool is_view_ = true;
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
  AlignedText finish() && { return {std::move(text_), std::move(origins_)}; }

 private:
  const AlignedText& source_;
  std::string text_;
  std::vector<Origin> origins_;
};

// `input` as valid UTF-8: every maximal broken subpart becomes U+FFFD.
AlignedText sanitized(std::string_view input);

}  // namespace coxswain::tokenizer
