#include "tokenizer/byte_alphabet.h"

#include <algorithm>
#include <array>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<std::uint16_t, 256> make_characters() {
  std::array<std::uint16_t, 256> out{};
  std::uint16_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte)
    out[byte] = is_printable(byte) ? static_cast<std::uint16_t>(byte) : next++;
  return out;
}

constexpr std::array<std::uint16_t, 256> kCharacters = make_characters();
constexpr std::size_t kCharactersEnd = 256 + 68;  // 68 bytes are not printable

constexpr std::array<std::int16_t, kCharactersEnd> make_bytes() {
  std::array<std::int16_t, kCharactersEnd> out{};
  for (auto& byte : out) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte)
    out[kCharacters[byte]] = static_cast<std::int16_t>(byte);
  return out;
}

constexpr std::array<std::int16_t, kCharactersEnd> kBytes = make_bytes();

// The character of a byte in UTF-8.
struct Spelling {
  std::array<char, 2> bytes{};
  std::uint8_t n_bytes = 0;
};

constexpr std::array<Spelling, 256> make_spellings() {
  std::array<Spelling, 256> out{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned c = kCharacters[byte];
    if (c < 0x80) {
      out[byte] = {{static_cast<char>(c)}, 1};
    } else {
      out[byte] = {{static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))}, 2};
    }
  }
  return out;
}

constexpr std::array<Spelling, 256> kSpellings = make_spellings();

}  // namespace

char32_t byte_to_character(unsigned char byte) {
  return kCharacters[byte];
}

std::string byte_token_name(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

std::optional<char> byte_of_token_name(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  const int high = digit(token[3]);
  const int low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

void append_byte_characters(std::string& out, std::string_view bytes) {
  const auto is_pair = [](char byte) {
    const auto value = static_cast<unsigned char>(byte);
    return value < 0x21 || value > 0x7E;
  };
  const std::size_t begin = out.size();
  const std::size_t n_made =
      bytes.size() + static_cast<std::size_t>(std::ranges::count_if(bytes, is_pair));
  out.resize(begin + n_made + 1);  // both bytes of a spelling are always written
  char* to = out.data() + begin;
  for (const char byte : bytes) {
    const Spelling& spelling = kSpellings[static_cast<unsigned char>(byte)];
    to[0] = spelling.bytes[0];
    to[1] = spelling.bytes[1];
    to += spelling.n_bytes;
  }
  out.resize(begin + n_made);
}

bool append_bytes_of_characters(std::string& out, std::string_view token) {
  const std::size_t old_size = out.size();
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint c = code_point_at(token, at);
    if (c.value >= kCharactersEnd || kBytes[c.value] < 0) {
      out.resize(old_size);
      return false;
    }
    out.push_back(static_cast<char>(kBytes[c.value]));
    at += c.n_bytes;
  }
  return true;
}

}  // namespace coxswain::tokenizer
