#pragma once
// GPTQ (Frantar et al. 2022, arXiv:2210.17323): weights are rounded input by input, and what each rounding does to the
// outputs is made up for by the inputs that are still to come. What that takes is the second moment of the inputs.
//
// The bits of the result do not depend on the number of threads.
//
// Thread rule: the calling thread, which is one of those of the context.

#include <cstdint>
#include <vector>

#include <coxswain/status.h>

#include "kernels/kernel_table.h"
#include "quantize/matrix.h"

namespace coxswain::quantize {

// Of the inputs of a linear layer: the sum of x x^T over all rows, and of |x|.
class InputMoments {
 public:
  explicit InputMoments(std::uint64_t k) : k_(k), products_(k * k), magnitudes_(k) {}

  // x [m, k], `stride` apart.
  Status add(const float* x,
             std::size_t stride,
             std::size_t m,
             const kernels::KernelTable& table,
             kernels::ExecContext& exec);

  std::uint64_t k() const { return k_; }
  std::uint64_t n_rows() const { return n_rows_; }
  float product(std::uint64_t i, std::uint64_t j) const { return products_[i * k_ + j]; }
  const std::vector<double>& magnitudes() const { return magnitudes_; }
  // Sum over all rows of (w x)^2, for the difference w [k] of an output's weights.
  double error_of(std::span<const float> w) const;

 private:
  std::uint64_t k_;
  std::uint64_t n_rows_ = 0;
  std::vector<float> products_;
  std::vector<double> magnitudes_;
};

struct GptqOptions {
  NumberKind kind = NumberKind::kInt4;
  std::uint64_t group_size = 128;  // 0: all
  double percdamp = 0.01;          // of the mean second moment, added to all
  bool act_order = false;          // inputs of large second moment first
  bool static_groups = false;      // groups do not follow that order, and scales are chosen first
};

// Errors: kInvalidArgument where rounding cannot make up: the moments are no positive matrix even when damped.
Result<QuantisedMatrix> gptq(Weights weights,
                             const InputMoments& moments,
                             const GptqOptions& options,
                             kernels::ExecContext& exec);

}  // namespace coxswain::quantize
