#pragma once
// Arguments of a linear call: y[m, n] = x[m, k] * w^T (+ bias) (+ y).
//
// One call holds any number of problems and runs them in one parallel region: q, k and v; gate and up; all experts of
// a step. Rows of activations are converted (rounded or quantised) once for each input and arithmetic form, however
// many problems and pieces use them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/elementwise_args.h"
#include "kernels/weight_format.h"

namespace coxswain::kernels {

// Rows that problems draw from: float32, [m, k].
struct LinearInput {
  const float* x = nullptr;
  std::size_t stride = 0;
  std::size_t m = 0;
  std::size_t k = 0;
};

// One image's outputs: [rows of the problem, w->n] at y. Pieces of a problem may be of different
// formats and write side by side.
struct LinearPiece {
  const MatrixImage* w = nullptr;
  float* y = nullptr;
  std::size_t y_stride = 0;
  const float* bias = nullptr;  // [w->n] or null
  // Set: w is a gate over as many outputs `up`, and y [rows, w->n / 2] is activation(gate) * up.
  // REQUIRES: can_gate(*w).
  std::optional<Activation> gate = {};
};

// Whether the two halves of an image's outputs can be factors of one result.
bool can_gate(const MatrixImage& w);

// Rows of one input times several pieces. Row i is row first + i of the input, or row gather[i].
struct LinearProblem {
  std::size_t input = 0;  // place among the call's inputs
  std::size_t first = 0;
  std::size_t m = 0;
  const std::uint32_t* gather = nullptr;  // [m] or null
  std::span<const LinearPiece> pieces = {};
};

// Outputs of different pieces must not overlap. Inputs must not be outputs.
struct LinearCall {
  std::span<const LinearInput> inputs = {};
  std::span<const LinearProblem> problems = {};
  bool accumulate = false;  // add to y
  // At least linear_scratch_bytes() of its shape, 64-byte aligned.
  std::span<std::byte> scratch = {};
};

// Upper bounds of a call, for its scratch; any set, any formats.
struct LinearShape {
  std::size_t rows = 0;       // of all inputs together
  std::size_t k = 0;          // of the widest input
  std::size_t n_pieces = 1;   // of all problems together
  std::size_t n_forms = 1;    // formats with different arithmetic that meet one input
  std::size_t n_threads = 1;  // of the ExecContext that runs the call
  bool gathers = false;
};
std::size_t linear_scratch_bytes(const LinearShape& shape);

}  // namespace coxswain::kernels
