#pragma once
// PieceRows: one image of weights times some rows, as one task of a linear call (linear.cc) sees it: products of panels
// into sums, and sums into results. Here is the order in which blocks of weights and rows meet; what is done with one
// tile or chunk is the set's (cpu/ops.h).
//
// Thread rule: const throughout; whoever shares one brings sums of his own.

#include <cstddef>

#include "base/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/linear_args.h"

namespace coxswain::kernels {

// Of an activation in this form.
std::size_t value_bytes(ActivationForm form);

// Sums of a row for each group of inputs: how many, and where they begin behind the row's k values, in bytes.
std::size_t starts_of_group(const LinearKernel& kernel);
std::size_t starts_at(std::size_t k, const LinearKernel& kernel);

// Activations in the form of a kernel, or floats as they are.
struct ConvertedRows {
  const std::byte* data = nullptr;
  std::size_t stride_bytes = 0;
  const float* scales = nullptr;  // of quantised forms
};

// `each` panels from first on, and as many from up on where it is not 0: a gate's.
struct Panels {
  std::size_t first;
  std::size_t each;
  std::size_t up;

  std::size_t size() const { return up == 0 ? each : 2 * each; }
  std::size_t end() const { return first + each; }
  std::size_t operator[](std::size_t i) const {
    return i < each ? first + i : up + first + i - each;
  }
};

class PieceRows {
 public:
  // few: the way of calls of few rows (LinearKernel::few_rows). Both must outlive this.
  PieceRows(const LinearKernel& kernel, const LinearPiece& piece, bool few);

  // Rows of a chunk, and the sums of panels, acc_stride bytes apart.
  struct Sums {
    ConvertedRows rows;
    std::size_t n_rows;
    std::byte* acc;
    std::size_t acc_stride;
  };
  // The products of some panels.
  void multiply(const Panels& panels, const Sums& to) const;

  // Where results of a panel go: [rows, outputs of the panel], floats.
  struct Place {
    float* y;
    std::size_t stride;
    bool accumulate = false;
  };
  // Results of a panel, whose sums are the i-th of `from`.
  void finish(std::size_t panel, const Sums& from, std::size_t i, const Place& to) const;
  // Whether finish_gate() is there.
  bool finishes_gates() const { return kernel_.finish_gate != nullptr; }
  // activation(gate) * up of the i-th of `panels`, whose sums are the i-th and the one `each` behind.
  void finish_gate(
      const Panels& panels, const Sums& from, std::size_t i, const Place& to, bool streams) const;

 private:
  FinishArgs finish_args(std::size_t panel, const Sums& from, std::size_t i, const Place& to) const;
  void multiply_streams(const Panels& panels, const Sums& to) const;
  void multiply_blocks(const Panels& panels, const Sums& to) const;
  void multiply_tiles(std::size_t panel, const Sums& to, std::byte* acc) const;
  void use_groups(std::size_t panel, std::size_t group, const std::byte* row, TileArgs& tile) const;

  const LinearKernel& kernel_;
  const LinearPiece& piece_;
  const MatrixImage& w_;
  const bool few_;
  const std::size_t k_padded_;
  const std::size_t step_bytes_;  // of a panel, for one unit of every output
  const std::size_t panel_bytes_;
  const std::size_t n_groups_;
};

}  // namespace coxswain::kernels
