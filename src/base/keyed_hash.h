#pragma once
// A hash of text that outsiders cannot aim at: names in a request cannot be chosen so that they all
// fall into one place of a table.
//
// SipHash: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; the variant 1-3 under a
// key that each process draws once. Thread rule: any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace coxswain::base {

// `rounds_each` for each 8 bytes, `rounds_last` at the end.
std::uint64_t sip_hash(std::string_view text,
                       const std::array<std::uint64_t, 2>& key,
                       int rounds_each,
                       int rounds_last);

// Under the key of this process.
std::size_t keyed_hash(std::string_view text);

// The same for tables of the standard library.
struct KeyedHash {
  std::size_t operator()(std::string_view text) const { return keyed_hash(text); }
};

}  // namespace coxswain::base
