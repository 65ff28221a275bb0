#pragma once
// Whole-number arithmetic that is easy to get wrong when it is written out.
//
// Thread rule: pure functions.

#include <concepts>

namespace coxswain::base {

// How many pieces of `piece` hold `n`; never overflows. REQUIRES: piece > 0.
template <std::unsigned_integral T>
constexpr T ceil_div(T n, T piece) {
  return static_cast<T>(n / piece + (n % piece == 0 ? 0 : 1));
}

// The first multiple of `piece` that is not below `n`. REQUIRES: piece > 0, the multiple fits.
template <std::unsigned_integral T>
constexpr T round_up(T n, T piece) {
  return static_cast<T>(ceil_div(n, piece) * piece);
}

// a - b, or 0 where that would be below 0.
template <std::unsigned_integral T>
constexpr T sub_sat(T a, T b) {
  return a > b ? static_cast<T>(a - b) : T{0};
}

}  // namespace coxswain::base
