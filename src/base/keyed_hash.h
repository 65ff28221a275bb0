#pragma once
// Hashes that outsiders cannot aim at: neither the names in a request nor its prompt can be chosen
// so that they all fall into one place of a table.
//
// SipHash: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012. Thread rule: any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace coxswain::base {

using HashKey = std::array<std::uint64_t, 2>;

HashKey draw_hash_key();

// Rounds for each 8 bytes and at the end.
struct SipRounds {
  int each;
  int last;
};
inline constexpr SipRounds kSip13{1, 3};
inline constexpr SipRounds kSip24{2, 4};

std::uint64_t sip_hash(std::span<const std::byte> bytes, const HashKey& key, SipRounds rounds);

// SipHash-1-3 under a key that each process draws once.
std::size_t keyed_hash(std::string_view text);

// The same for tables of the standard library.
struct KeyedHash {
  std::size_t operator()(std::string_view text) const { return keyed_hash(text); }
};

}  // namespace coxswain::base
