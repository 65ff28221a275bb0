#include "kvcache/keyed_hash.h"

#include <bit>
#include <cstring>

namespace coxswain::kvcache {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void absorb(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t keyed_hash(const HashKey& key, std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  SipState s{key[0] ^ 0x736f6d6570736575U,
             key[1] ^ 0x646f72616e646f6dU,
             key[0] ^ 0x6c7967656e657261U,
             key[1] ^ 0x7465646279746573U};
  const std::size_t whole = bytes.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    s.absorb(word);
  }
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size() & 0xFFU) << 56U;
  for (std::size_t i = whole; i < bytes.size(); ++i) {
    last |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * (i - whole));
  }
  s.absorb(last);
  s.v2 ^= 0xFFU;
  for (int i = 0; i < 4; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

}  // namespace coxswain::kvcache
