#pragma once
// For tests: rows of random scores.
//
// Thread rule: pure function.

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace coxswain::sampling {

// Normally distributed around 0; on multiples of `grid` unless it is 0.
inline std::vector<float> random_row(std::size_t n,
                                     float spread,
                                     unsigned seed,
                                     float grid = 0.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> row(n);
  for (float& v : row) {
    v = normal(engine);
    if (grid > 0.0F) v = std::round(v / grid) * grid;
  }
  return row;
}

}  // namespace coxswain::sampling
