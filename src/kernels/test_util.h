#pragma once
// Shared by the tests of this module: every set that can run here (the others are named on stdout),
// deterministic values, scratch.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "tensor/aligned_buffer.h"

namespace coxswain::kernels::testing {

// Names the sets that are left out, once per run.
inline const std::vector<const KernelTable*>& runnable_tables() {
  static const std::vector<const KernelTable*> tables = [] {
    std::vector<const KernelTable*> out;
    for (std::size_t i = 0; i < kIsaCount; ++i) {
      const auto isa = static_cast<Isa>(i);
      const auto table = kernel_table(isa);
      if (table.ok()) {
        out.push_back(*table);
      } else {
        std::printf("[  SKIPPED ] %s: this CPU cannot run it\n", std::string(name_of(isa)).c_str());
      }
    }
    return out;
  }();
  return tables;
}

inline const KernelTable& scalar_table() {
  return **kernel_table(Isa::kScalar);
}

inline std::vector<float> random_floats(std::size_t n, std::uint32_t seed, float range = 1.0F) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-range, range);
  std::vector<float> out(n);
  for (float& value : out) value = distribution(generator);
  return out;
}

inline tensor::AlignedBuffer scratch_of(std::size_t bytes) {
  return tensor::AlignedBuffer::allocate(bytes).value();
}

// One problem of one piece.
inline void run_linear(const KernelTable& table,
                       ExecContext& exec,
                       const LinearInput& input,
                       const LinearPiece& piece,
                       bool accumulate = false) {
  auto scratch = scratch_of(
      linear_scratch_bytes({.rows = input.m, .k = input.k, .n_threads = exec.n_threads()}));
  const LinearProblem problem{.m = input.m, .pieces = {&piece, 1}};
  table.linear(exec,
               {.inputs = {&input, 1},
                .problems = {&problem, 1},
                .accumulate = accumulate,
                .scratch = scratch.bytes()});
}

// Whether two results are the same numbers; NaNs count as equal.
inline bool same_numbers(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return x == y || (std::isnan(x) && std::isnan(y));
  });
}

}  // namespace coxswain::kernels::testing
