#include "base/keyed_hash.h"

#include <bit>
#include <cstring>
#include <random>

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

std::array<std::uint64_t, 2> draw_key() {
  std::random_device device;
  const auto word = [&] { return (std::uint64_t{device()} << 32) | device(); };
  return {word(), word()};
}

}  // namespace

std::uint64_t sip_hash(std::string_view text,
                       const std::array<std::uint64_t, 2>& key,
                       int rounds_each,
                       int rounds_last) {
  State state{key[0] ^ 0x736F6D6570736575ULL,
              key[1] ^ 0x646F72616E646F6DULL,
              key[0] ^ 0x6C7967656E657261ULL,
              key[1] ^ 0x7465646279746573ULL};
  std::uint64_t last = static_cast<std::uint64_t>(text.size()) << 56;
  for (; text.size() >= sizeof last; text.remove_prefix(sizeof last)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    state.add(word, rounds_each);
  }
  std::uint64_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  last |= rest;
  state.add(last, rounds_each);
  state.v2 ^= 0xFF;
  state.round(rounds_last);
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

std::size_t keyed_hash(std::string_view text) {
  static const std::array<std::uint64_t, 2> key = draw_key();
  return sip_hash(text, key, 1, 3);
}

}  // namespace coxswain::base
