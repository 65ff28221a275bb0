#pragma once
// Structs of the C API that begin with their size: a caller's may be older or newer than the library's.
//
// T is the library's struct; `first_bytes` the size that it had when it first appeared. Callers' structs are read and
// written as bytes, at most as many as they say they have.
//
// Thread rule: pure functions.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include <coxswain/status.h>

namespace coxswain::library {

// Puts the caller's fields over those of `out`, which has the defaults. Errors: kInvalidArgument for a size below the
// first version's, or fields of a later version that are not zero.
template <typename T>
Status read_struct(const T* given, std::size_t first_bytes, const char* name, T& out) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>);
  if (given == nullptr) return {};
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < first_bytes) {
    return invalid_argument("`struct_size` of " + std::string(name) + " must be >= " +
                                std::to_string(first_bytes) + ". Given: " + std::to_string(size),
                            "struct_size");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return invalid_argument(std::string(name) +
                                " has fields that this version of the library does not know: its "
                                "`struct_size` is " +
                                std::to_string(size) + ", known are " + std::to_string(sizeof(T)),
                            "struct_size");
  }
  std::memcpy(&out, given, std::min(size, sizeof(T)));
  return {};
}

// Writes `value` into the caller's struct of `size` bytes, zeros behind it, and its size.
template <typename T>
void write_struct(const T& value, std::size_t size, T* out) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>);
  if (out == nullptr || size < sizeof size) return;
  auto* bytes = reinterpret_cast<unsigned char*>(out);
  std::memset(bytes, 0, size);
  std::memcpy(bytes, &value, std::min(size, sizeof(T)));
  std::memcpy(bytes, &size, sizeof size);
}

}  // namespace coxswain::library
