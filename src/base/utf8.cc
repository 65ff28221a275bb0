#include "base/utf8.h"

#include <cstring>

namespace coxswain::base {

CodePoint code_point_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && is_continuation(text[at])) --at;
  return code_point_at(text, at);
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  for (std::size_t back = 0; back < 3 && end > 0 && is_continuation(text[end]); ++back) --end;
  return text.substr(0, end);
}

std::size_t valid_utf8_prefix(std::string_view text) {
  constexpr std::uint64_t kBeyondAscii = 0x8080808080808080ULL;
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = kBeyondAscii;
    if (at + sizeof(eight) <= text.size()) std::memcpy(&eight, text.data() + at, sizeof(eight));
    if ((eight & kBeyondAscii) == 0) {
      at += sizeof(eight);
      continue;
    }
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) {
      ++at;
      continue;
    }
    const bool is_pair = first >= 0xC2 && first < 0xE0 && at + 1 < text.size();
    if (is_pair && is_continuation(text[at + 1])) {
      at += 2;
      continue;
    }
    const std::size_t length = well_formed_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return at;
}

BrokenUtf8 broken_utf8_at(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  std::size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  std::size_t n = 1;
  while (n < length) {
    if (n == bytes.size()) return {n, true};
    if (at(n) < low || at(n) > high) return {n, false};
    low = 0x80;
    high = 0xBF;
    ++n;
  }
  return {n, false};
}

void append_lossy(std::string& out, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    out.append(kReplacementUtf8);
    bytes.remove_prefix(broken_utf8_at(bytes).n_bytes);
  }
}

}  // namespace coxswain::base
