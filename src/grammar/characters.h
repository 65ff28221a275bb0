#pragma once
// CharacterSet: a set of code points, and how it is spelled in UTF-8.
//
// Surrogates are never members: no UTF-8 text has them. Thread rule: plain values.

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::grammar {

inline constexpr char32_t kCodePointMax = 0x10FFFF;

class CharacterSet {
 public:
  struct Range {  // [first, last]
    char32_t first = 0;
    char32_t last = 0;
    friend auto operator<=>(const Range&, const Range&) = default;
  };

  CharacterSet() = default;
  CharacterSet(std::initializer_list<Range> ranges);
  static CharacterSet all();
  static CharacterSet of(char32_t character) { return {{character, character}}; }

  void add(char32_t first, char32_t last);
  void add(const CharacterSet& other);
  CharacterSet complement() const;
  CharacterSet intersection(const CharacterSet& other) const;
  CharacterSet without(const CharacterSet& other) const;
  bool contains(char32_t character) const;
  bool empty() const { return ranges_.empty(); }
  // Ascending, neither touching nor overlapping.
  std::span<const Range> ranges() const { return ranges_; }
  friend auto operator<=>(const CharacterSet&, const CharacterSet&) = default;

 private:
  std::vector<Range> ranges_;
};

// [first, last] of one byte.
struct ByteRange {
  std::uint8_t first = 0;
  std::uint8_t last = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
  friend auto operator<=>(const ByteRange&, const ByteRange&) = default;
};

// One to four ranges, byte by byte; the characters of a set are the union of what its sequences spell.
using ByteSequence = std::vector<ByteRange>;
std::vector<ByteSequence> utf8_sequences(const CharacterSet& set);

// The code points of a text. Broken UTF-8 gives an empty optional.
std::optional<std::u32string> to_code_points(std::string_view text);

}  // namespace coxswain::grammar
