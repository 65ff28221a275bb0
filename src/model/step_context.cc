#include "model/step_context.h"

#include <array>

namespace coxswain::model {

void StepContext::linear(
    const Linear& w, ConstRows x, float* y, std::size_t m, bool accumulate) const {
  if (observer != nullptr) (*observer)(w, x, m);
  std::array<kernels::LinearPiece, kLinearPiecesMax> pieces;
  std::size_t n_pieces = 0;
  std::size_t n = 0;
  for (const kernels::MatrixImage& image : w.pieces) {
    pieces[n_pieces++] = {&image, y + n, w.n(), w.bias.empty() ? nullptr : w.bias.data() + n};
    n += image.n;
  }
  const kernels::LinearInput input{x.data, x.stride == 0 ? w.k() : x.stride, m, w.k()};
  const kernels::LinearProblem problem{.m = m, .pieces = {pieces.data(), n_pieces}};
  kernels.linear(exec,
                 {.inputs = {&input, 1},
                  .problems = {&problem, 1},
                  .accumulate = accumulate,
                  .scratch = work.linear_scratch});
}

void StepContext::gated(
    const Linear& w, kernels::Activation activation, ConstRows x, float* y, std::size_t m) const {
  if (observer != nullptr) (*observer)(w, x, m);
  const kernels::LinearPiece piece{
      &w.pieces.front(), y, w.n() / 2, w.bias.empty() ? nullptr : w.bias.data(), activation};
  const kernels::LinearInput input{x.data, x.stride == 0 ? w.k() : x.stride, m, w.k()};
  const kernels::LinearProblem problem{.m = m, .pieces = {&piece, 1}};
  kernels.linear(
      exec, {.inputs = {&input, 1}, .problems = {&problem, 1}, .scratch = work.linear_scratch});
}

bool StepContext::gates(const Linear& w) {
  return w.pieces.size() == 1 && kernels::can_gate(w.pieces.front());
}

void StepContext::add(const float* a, float* y, float alpha) const {
  kernels::AddArgs args;
  args.a = a;
  args.a_stride = hidden;
  args.y = y;
  args.y_stride = hidden;
  args.m = n_rows;
  args.n = hidden;
  args.alpha = alpha;
  kernels.add(exec, args);
}

void StepContext::copy(const float* x, float* y) const {
  kernels.gather(exec, {x, hidden, nullptr, y, hidden, n_rows, hidden});
}

}  // namespace coxswain::model
