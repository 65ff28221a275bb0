#include "base/keyed_hash.h"

#include <bit>
#include <cstring>

#include "base/random.h"

namespace coxswain::base {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

struct State {
  std::uint64_t v0;
  std::uint64_t v1;
  std::uint64_t v2;
  std::uint64_t v3;

  void round(int n) {
    for (int i = 0; i < n; ++i) {
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
  }
  void add(std::uint64_t word, int rounds) {
    v3 ^= word;
    round(rounds);
    v0 ^= word;
  }
};

}  // namespace

HashKey draw_hash_key() {
  return {random_u64(), random_u64()};
}

std::uint64_t sip_hash(std::span<const std::byte> bytes, const HashKey& key, SipRounds rounds) {
  State state{key[0] ^ 0x736F6D6570736575ULL,
              key[1] ^ 0x646F72616E646F6DULL,
              key[0] ^ 0x6C7967656E657261ULL,
              key[1] ^ 0x7465646279746573ULL};
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56;
  for (; bytes.size() >= sizeof last; bytes = bytes.subspan(sizeof last)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    state.add(word, rounds.each);
  }
  std::uint64_t rest = 0;
  if (!bytes.empty()) std::memcpy(&rest, bytes.data(), bytes.size());
  last |= rest;
  state.add(last, rounds.each);
  state.v2 ^= 0xFF;
  state.round(rounds.last);
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

std::size_t keyed_hash(std::string_view text) {
  static const HashKey key = draw_hash_key();
  return sip_hash(std::as_bytes(std::span(text)), key, kSip13);
}

}  // namespace coxswain::base
