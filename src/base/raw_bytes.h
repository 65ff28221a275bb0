#pragma once
// Plain values in strings of bytes, little-endian, as this machine has them: what files of blocks are made of.
//
// Thread rule: pure functions.

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace coxswain::base {

static_assert(std::endian::native == std::endian::little);

template <typename T>
  requires std::is_trivially_copyable_v<T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// REQUIRES: at + sizeof(T) <= bytes.size().
template <typename T>
  requires std::is_trivially_copyable_v<T>
T raw_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace coxswain::base
