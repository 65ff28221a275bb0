#pragma once
// SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012): a hash whose
// collisions nobody can aim at without the key, so a client cannot slow the prefix look-up by
// choosing prompts.
//
// Thread rule: pure function.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace coxswain::kvcache {

using HashKey = std::array<std::uint64_t, 2>;

std::uint64_t keyed_hash(const HashKey& key, std::span<const std::byte> bytes);

}  // namespace coxswain::kvcache
