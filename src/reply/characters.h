#pragma once
// Kinds of bytes that frames and values are made of.

namespace coxswain::reply {

constexpr bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
// Of functions' names, as formats without quotes spell them. Bytes beyond ASCII count.
constexpr bool is_name(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == ':' || c == '/' ||
         (c & 0x80) != 0;
}

}  // namespace coxswain::reply
