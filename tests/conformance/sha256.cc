#include "conformance/sha256.h"

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace coxswain::conformance {
namespace {

using Words = std::array<std::uint32_t, 8>;

constexpr std::size_t kBlock = 64;

// The first 32 bits of the fractional part of a root of `prime`, in integers: the largest r with
// r^power <= prime * 2^(32 * power).
std::uint32_t root_bits(std::uint32_t prime, unsigned power) {
  __extension__ using Wide = unsigned __int128;
  const auto fits = [&](std::uint64_t r) {
    // r < 2^36: the cube of the upper 40 bits does not fit 128, so it is divided instead.
    const Wide square = Wide{r} * r;
    if (power == 2) return square <= Wide{prime} << 64U;
    return square <= (Wide{prime} << 96U) / r;
  };
  std::uint64_t low = 1;
  for (std::uint64_t bit = std::uint64_t{1} << 38U; bit != 0; bit >>= 1U) {
    if (fits(low + bit)) low += bit;
  }
  return static_cast<std::uint32_t>(low);
}

std::vector<std::uint32_t> primes(std::size_t n) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t candidate = 2; out.size() < n; ++candidate) {
    bool is_prime = true;
    for (const std::uint32_t prime : out) is_prime = is_prime && candidate % prime != 0;
    if (is_prime) out.push_back(candidate);
  }
  return out;
}

std::array<std::uint32_t, 64> round_constants() {
  std::array<std::uint32_t, 64> out{};
  const auto first = primes(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = root_bits(first[i], 3);
  return out;
}

void add_block(Words& hash, const std::byte* block) {
  static const std::array<std::uint32_t, 64> constants = round_constants();
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t b = 0; b < 4; ++b)
      w[i] = w[i] << 8U | std::to_integer<std::uint32_t>(block[4 * i + b]);
  }
  for (std::size_t i = 16; i < w.size(); ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3U;
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10U;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  Words v = hash;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
    const std::uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    const std::uint32_t t1 = v[7] + s1 + choice + constants[i] + w[i];
    const std::uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
    const std::uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    v = {t1 + s0 + majority, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
  }
  for (std::size_t i = 0; i < hash.size(); ++i) hash[i] += v[i];
}

}  // namespace

std::string sha256_hex(std::span<const std::byte> data) {
  Words hash{};
  const auto first = primes(hash.size());
  for (std::size_t i = 0; i < hash.size(); ++i) hash[i] = root_bits(first[i], 2);
  std::size_t at = 0;
  for (; at + kBlock <= data.size(); at += kBlock) add_block(hash, data.data() + at);
  // The rest, a one bit, zeros, and the number of bits.
  std::vector<std::byte> tail(data.begin() + static_cast<std::ptrdiff_t>(at), data.end());
  tail.push_back(std::byte{0x80});
  while (tail.size() % kBlock != kBlock - 8) tail.push_back(std::byte{0});
  for (unsigned b = 8; b-- > 0;)
    tail.push_back(static_cast<std::byte>(std::uint64_t{data.size()} * 8 >> (8 * b) & 0xFFU));
  for (at = 0; at < tail.size(); at += kBlock) add_block(hash, tail.data() + at);
  std::string out;
  for (const std::uint32_t word : hash) {
    for (unsigned shift = 32; shift != 0; shift -= 4)
      out.push_back("0123456789abcdef"[word >> (shift - 4) & 15U]);
  }
  return out;
}

}  // namespace coxswain::conformance
