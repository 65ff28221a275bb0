#include "grammar/characters.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/utf8.h"

namespace coxswain::grammar {
namespace {

constexpr char32_t kSurrogateFirst = 0xD800;
constexpr char32_t kSurrogateLast = 0xDFFF;

// The last code point of each length in UTF-8.
constexpr std::array<char32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, kCodePointMax};

// Sequences of [first, last], two code points of the same length: split until all bytes but the first that differ run
// over their whole range.
void append_sequences(char32_t first, char32_t last, std::vector<ByteSequence>& out) {
  std::string low;
  std::string high;
  base::append_utf8(low, first);
  base::append_utf8(high, last);
  const std::size_t n = low.size();
  for (std::size_t i = 1; i < n; ++i) {
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;  // of the last i bytes
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      append_sequences(first, first | mask, out);
      append_sequences((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      append_sequences(first, (last & ~mask) - 1, out);
      append_sequences(last & ~mask, last, out);
      return;
    }
  }
  ByteSequence sequence;
  for (std::size_t i = 0; i < n; ++i)
    sequence.push_back({static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i])});
  out.push_back(std::move(sequence));
}

}  // namespace

CharacterSet::CharacterSet(std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) add(range.first, range.last);
}

CharacterSet CharacterSet::all() {
  return {{0, kCodePointMax}};
}

void CharacterSet::add(char32_t first, char32_t last) {
  last = std::min(last, kCodePointMax);
  if (first > last) return;
  if (first <= kSurrogateLast && last >= kSurrogateFirst) {
    if (first < kSurrogateFirst) add(first, kSurrogateFirst - 1);
    if (last > kSurrogateLast) add(kSurrogateLast + 1, last);
    return;
  }
  const auto begin = std::lower_bound(
      ranges_.begin(), ranges_.end(), first, [](const Range& range, char32_t value) {
        return range.last + 1 < value;
      });
  auto end = begin;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  const auto at = ranges_.erase(begin, end);
  ranges_.insert(at, {first, last});
}

void CharacterSet::add(const CharacterSet& other) {
  for (const Range& range : other.ranges_) add(range.first, range.last);
}

CharacterSet CharacterSet::complement() const {
  CharacterSet out;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) out.add(next, range.first - 1);
    next = range.last + 1;
  }
  out.add(next, kCodePointMax);
  return out;
}

CharacterSet CharacterSet::intersection(const CharacterSet& other) const {
  CharacterSet out;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const char32_t first = std::max(a->first, b->first);
    const char32_t last = std::min(a->last, b->last);
    if (first <= last) out.ranges_.push_back({first, last});
    (a->last < b->last ? a : b)++;
  }
  return out;
}

CharacterSet CharacterSet::without(const CharacterSet& other) const {
  return intersection(other.complement());
}

bool CharacterSet::contains(char32_t character) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return range.first <= character && character <= range.last;
  });
}

std::vector<ByteSequence> utf8_sequences(const CharacterSet& set) {
  std::vector<ByteSequence> out;
  for (const CharacterSet::Range& range : set.ranges()) {
    char32_t first = range.first;
    for (const char32_t last_of_length : kLastOfLength) {
      if (first > last_of_length) continue;
      const char32_t last = std::min(range.last, last_of_length);
      append_sequences(first, last, out);
      if (last == range.last) break;
      first = last + 1;
    }
  }
  return out;
}

std::optional<std::u32string> to_code_points(std::string_view text) {
  if (!base::is_utf8(text)) return std::nullopt;
  std::u32string out;
  for (std::size_t at = 0; at < text.size();) {
    const base::CodePoint next = base::code_point_at(text, at);
    out.push_back(next.value);
    at += next.n_bytes;
  }
  return out;
}

}  // namespace coxswain::grammar
