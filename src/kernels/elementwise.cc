#include "kernels/elementwise.h"

#include <algorithm>

namespace coxswain::kernels {
namespace {

static_assert(static_cast<int>(Activation::kGeluQuick) == kActGeluQuick);
static_assert(static_cast<int>(Activation::kSilu) == kActSilu);

// About 20 us of work for one thread: several times the cost of a parallel region.
constexpr std::size_t kParallelValues = std::size_t{1} << 16;

// body(row) for every row.
void for_rows(ThreadPool& pool,
              std::size_t n_rows,
              std::size_t values_per_row,
              base::FunctionRef<void(std::size_t)> body) {
  const std::size_t n_tasks = n_rows * values_per_row < kParallelValues
                                  ? std::min<std::size_t>(n_rows, 1)
                                  : std::min(n_rows, pool.n_threads() * 4);
  pool.run(n_tasks, [&](std::size_t task, std::size_t) {
    for (std::size_t row = n_rows * task / n_tasks; row < n_rows * (task + 1) / n_tasks; ++row)
      body(row);
  });
}

void run_norm(ThreadPool& pool, const NormArgs& args, void (*norm)(const NormRow*)) {
  for_rows(pool, args.m, args.n * args.groups, [&](std::size_t row) {
    for (std::size_t group = 0; group < args.groups; ++group) {
      const std::size_t shift = args.weight_per_group ? group * args.n : 0;
      NormRow one{};
      one.x = args.x + row * args.x_stride + group * args.n;
      one.y = args.y + row * args.y_stride + group * args.n;
      one.n = args.n;
      one.weight = args.weight != nullptr ? args.weight + shift : nullptr;
      one.bias = args.bias != nullptr ? args.bias + shift : nullptr;
      one.epsilon = args.epsilon;
      one.weight_offset = args.weight_offset;
      norm(&one);
    }
  });
}

}  // namespace

void run_rms_norm(ThreadPool& pool, const NormArgs& args, const VectorOps& ops) {
  run_norm(pool, args, ops.rms_norm);
}
void run_layer_norm(ThreadPool& pool, const NormArgs& args, const VectorOps& ops) {
  run_norm(pool, args, ops.layer_norm);
}

void run_rope(ThreadPool& pool, const RopeArgs& args, const VectorOps& ops) {
  for_rows(pool, args.m, args.n_heads * args.rotary_dim, [&](std::size_t row) {
    RopeHead head{};
    head.rotary_dim = args.rotary_dim;
    head.cos = args.cos + row * (args.rotary_dim / 2);
    head.sin = args.sin + row * (args.rotary_dim / 2);
    head.interleaved = args.style == RopeStyle::kInterleaved;
    for (std::size_t h = 0; h < args.n_heads; ++h) {
      head.x = args.x + row * args.x_stride + h * args.head_dim;
      ops.rope(&head);
    }
  });
}

void run_activation(ThreadPool& pool, const ActivationArgs& args, const VectorOps& ops) {
  const auto kind = static_cast<ActivationKind>(args.activation);
  for_rows(pool, args.m, args.n, [&](std::size_t row) {
    const float* up = args.up != nullptr ? args.up + row * args.up_stride : nullptr;
    ops.activation(
        kind, args.gate + row * args.gate_stride, up, args.y + row * args.y_stride, args.n);
  });
}

void run_add(ThreadPool& pool, const AddArgs& args, const VectorOps& ops) {
  for_rows(pool, args.m, args.n, [&](std::size_t row) {
    ops.add(
        args.a + row * args.a_stride, args.y + row * args.y_stride, args.n, args.alpha, args.beta);
  });
}

}  // namespace coxswain::kernels
