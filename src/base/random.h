#pragma once
// Random numbers that nobody can foretell: seeds, keys, ids of a process's life.
//
// Thread rule: any thread.

#include <cstdint>

namespace coxswain::base {

// From the operating system; never 0, which stands for "none" in many places.
std::uint64_t random_u64();

}  // namespace coxswain::base
