#include "kernels/elementwise.h"

#include <algorithm>

#include "kernels/for_rows.h"

namespace coxswain::kernels {
namespace {

static_assert(static_cast<int>(Activation::kGeluQuick) == kActGeluQuick);
static_assert(static_cast<int>(Activation::kSilu) == kActSilu);

// An angle's cosine and sine cost about as much as this many additions of rows.
constexpr std::size_t kAngleWeight = 16;
// Values that one task of a call over long rows takes.
constexpr std::size_t kPieceValues = 4096;

void run_norm(ExecContext& exec, const NormArgs& args, void (*norm)(const NormRow*)) {
  for_rows(exec, args.m, args.n * args.groups, [&](std::size_t row) {
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

// body(row, first, n) for every row of n values, cut into pieces where rows are few and long.
void for_pieces(ExecContext& exec,
                std::size_t m,
                std::size_t n,
                base::FunctionRef<void(std::size_t, std::size_t, std::size_t)> body) {
  const std::size_t pieces = m < exec.n_threads() ? (n + kPieceValues - 1) / kPieceValues : 1;
  if (pieces == 0) return;
  const std::size_t length = (n + pieces - 1) / pieces;
  for_rows(exec, m * pieces, length, [&](std::size_t i) {
    const std::size_t first = i % pieces * length;
    if (first < n) body(i / pieces, first, std::min(length, n - first));
  });
}

}  // namespace

void run_rms_norm(ExecContext& exec, const NormArgs& args, const VectorOps& ops) {
  run_norm(exec, args, ops.rms_norm);
}
void run_layer_norm(ExecContext& exec, const NormArgs& args, const VectorOps& ops) {
  run_norm(exec, args, ops.layer_norm);
}

void run_rope(ExecContext& exec, const RopeArgs& args, const VectorOps& ops) {
  for_rows(exec, args.m, args.n_heads * args.rotary_dim, [&](std::size_t row) {
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

void run_activation(ExecContext& exec, const ActivationArgs& args, const VectorOps& ops) {
  const auto kind = static_cast<ActivationKind>(args.activation);
  for_rows(exec, args.m, args.n, [&](std::size_t row) {
    const float* up = args.up != nullptr ? args.up + row * args.up_stride : nullptr;
    ops.activation(
        kind, args.gate + row * args.gate_stride, up, args.y + row * args.y_stride, args.n);
  });
}

void run_add(ExecContext& exec, const AddArgs& args, const VectorOps& ops) {
  for_rows(exec, args.m, args.n, [&](std::size_t row) {
    ops.add(
        args.a + row * args.a_stride, args.y + row * args.y_stride, args.n, args.alpha, args.beta);
  });
}

void run_clamped_swiglu(ExecContext& exec, const ClampedSwigluArgs& args, const VectorOps& ops) {
  for_rows(exec, args.m, args.n, [&](std::size_t row) {
    SwigluRow one{};
    one.gate = args.gate + row * args.gate_stride;
    one.up = args.up + row * args.up_stride;
    one.y = args.y + row * args.y_stride;
    one.n = args.n;
    one.limit = args.limit;
    one.alpha = args.alpha;
    ops.clamped_swiglu(&one);
  });
}

void run_gated_add(ExecContext& exec, const GatedAddArgs& args, const VectorOps& ops) {
  for_rows(exec, args.m, args.n, [&](std::size_t row) {
    ops.add(args.a + row * args.a_stride,
            args.y + row * args.y_stride,
            args.n,
            ops.sigmoid(args.gate[row]),
            1.0F);
  });
}

void run_clip(ExecContext& exec, const ClipArgs& args, const VectorOps& ops) {
  for_rows(exec, args.m, args.n, [&](std::size_t row) {
    ops.clip(args.x + row * args.x_stride, args.n, args.limit);
  });
}

void run_soft_cap(ExecContext& exec, const SoftCapArgs& args, const VectorOps& ops) {
  for_pieces(exec, args.m, args.n, [&](std::size_t row, std::size_t first, std::size_t n) {
    ops.soft_cap(args.x + row * args.x_stride + first, n, args.scale, args.cap);
  });
}

void run_rope_angles(ExecContext& exec, const RopeAnglesArgs& args, const VectorOps& ops) {
  for_rows(exec, args.positions.size(), args.n * kAngleWeight, [&](std::size_t row) {
    const std::size_t set = args.set_of_row != nullptr ? args.set_of_row[row] : 0;
    AngleRow one{};
    one.position = static_cast<float>(args.positions[row]);
    one.frequencies = args.frequencies + set * args.n;
    one.factor = args.factor;
    one.cos = args.cos + row * args.n;
    one.sin = args.sin + row * args.n;
    one.n = args.n;
    ops.angles(&one);
  });
}

}  // namespace coxswain::kernels
