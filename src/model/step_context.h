#pragma once
// StepContext: what the blocks of one forward pass share.
//
// Thread rule: the runner's thread.

#include <cstddef>
#include <functional>
#include <span>

#include "kernels/kernel_table.h"
#include "model/weight_parts.h"
#include "model/workspace.h"

namespace coxswain::model {

// Rows of activations. A stride of 0 is the width that the reader expects.
struct ConstRows {
  ConstRows(const float* rows, std::size_t row_stride = 0)  // NOLINT(google-explicit-constructor)
      : data(rows), stride(row_stride) {}
  const float* data;
  std::size_t stride;
};

// The angles of the step's rows for one rope: [n_rows, rotary_dim / 2] each.
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::size_t rotary_dim = 0;
  kernels::RopeStyle style = kernels::RopeStyle::kHalves;
};

// Sees what a linear layer is about to multiply, x [m, w.k()]: for those who calibrate. What experts and heads multiply
// is not shown.
using LinearObserver = std::function<void(const Linear& w, ConstRows x, std::size_t m)>;

struct StepContext {
  const kernels::KernelTable& kernels;
  kernels::ExecContext& exec;
  Workspace& work;
  std::size_t hidden = 0;  // width of a row
  std::size_t n_rows = 0;
  std::span<const RopeTable> ropes;  // ArchSpec::ropes
  const LinearObserver* observer = nullptr;

  // y[m, n] = w x (+ bias) (+ y).
  void linear(const Linear& w, ConstRows x, float* y, std::size_t m, bool accumulate = false) const;
  // y[m, n / 2] = activation(gate) * up, w x being gate beside up. REQUIRES: gates(w).
  void gated(
      const Linear& w, kernels::Activation activation, ConstRows x, float* y, std::size_t m) const;
  static bool gates(const Linear& w);
  // y = a * alpha + y over [n_rows, hidden].
  void add(const float* a, float* y, float alpha) const;
  // y = x over [n_rows, hidden].
  void copy(const float* x, float* y) const;
};

}  // namespace coxswain::model
