#pragma once
// Questions to 16 or 64 bytes of a text at once, answered with one bit for each byte, the first
// byte's lowest. Thread rule: values.

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace coxswain::tokenizer {

class Bytes16 {
 public:
  static constexpr std::size_t kBytes = 16;

#if defined(__SSE2__)
  // REQUIRES: kBytes bytes at `at`, of any alignment.
  explicit Bytes16(const char* at)
      : bytes_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))) {}
  std::uint32_t equal_to(char c) const { return bits(_mm_cmpeq_epi8(bytes_, _mm_set1_epi8(c))); }
  // Control characters of ASCII.
  std::uint32_t controls() const {
    return bits(_mm_cmpeq_epi8(_mm_min_epu8(bytes_, _mm_set1_epi8(0x1F)), bytes_));
  }
  // Bytes of characters beyond ASCII.
  std::uint32_t beyond_ascii() const { return bits(bytes_); }

 private:
  static std::uint32_t bits(__m128i bytes) {
    return static_cast<std::uint32_t>(_mm_movemask_epi8(bytes));
  }

  __m128i bytes_;
#else
  explicit Bytes16(const char* at) : at_(at) {}
  std::uint32_t equal_to(char c) const {
    return bits([c](char byte) { return byte == c; });
  }
  std::uint32_t controls() const {
    return bits([](char byte) { return static_cast<unsigned char>(byte) <= 0x1F; });
  }
  std::uint32_t beyond_ascii() const {
    return bits([](char byte) { return static_cast<unsigned char>(byte) >= 0x80; });
  }

 private:
  template <typename Test>
  std::uint32_t bits(Test test) const {
    std::uint32_t out = 0;
    for (std::size_t i = 0; i < kBytes; ++i) out |= static_cast<std::uint32_t>(test(at_[i])) << i;
    return out;
  }

  const char* at_;
#endif
};

class Bytes64 {
 public:
  static constexpr std::size_t kBytes = 64;

  // REQUIRES: kBytes bytes at `at`, of any alignment.
  explicit Bytes64(const char* at)
      : parts_{Bytes16(at), Bytes16(at + 16), Bytes16(at + 32), Bytes16(at + 48)} {}
  std::uint64_t equal_to(char c) const {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < 4; ++i) out |= std::uint64_t{parts_[i].equal_to(c)} << 16 * i;
    return out;
  }

 private:
  Bytes16 parts_[4];
};

}  // namespace coxswain::tokenizer
