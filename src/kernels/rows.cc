#include "kernels/rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/cache_type.h"
#include "kernels/for_rows.h"
#include "kernels/weight_format.h"

namespace coxswain::kernels {
namespace {

// The ids of the n_used highest scores, ascending. One pass keeps the best so far in order; a later score has to be
// above an earlier one to pass it.
void find_highest(const float* scores, std::size_t n, std::uint32_t* ids, std::size_t n_used) {
  std::size_t found = 0;
  for (std::size_t e = 0; e < n; ++e) {
    if (found == n_used && !(scores[e] > scores[ids[n_used - 1]])) continue;
    std::size_t at = found < n_used ? found++ : n_used - 1;
    for (; at > 0 && scores[e] > scores[ids[at - 1]]; --at) ids[at] = ids[at - 1];
    ids[at] = static_cast<std::uint32_t>(e);
  }
  std::sort(ids, ids + n_used);
}

void choose_of_row(const ChooseExpertsArgs& args, std::size_t row, const VectorOps& ops) {
  float* const scores = args.scores + row * args.n_experts;
  std::uint32_t* const ids = args.ids + row * args.n_used;
  float* const weights = args.weights + row * args.n_used;
  if (args.routing == Routing::kSoftmaxThenTop) ops.softmax(scores, args.n_experts);
  find_highest(scores, args.n_experts, ids, args.n_used);
  for (std::size_t j = 0; j < args.n_used; ++j) weights[j] = scores[ids[j]];
  if (args.routing == Routing::kTopThenSoftmax) return ops.softmax(weights, args.n_used);
  if (!args.normalize) return;
  float sum = 0.0F;
  for (std::size_t j = 0; j < args.n_used; ++j) sum += weights[j];
  for (std::size_t j = 0; j < args.n_used; ++j) weights[j] /= sum;
}

}  // namespace

void run_look_up(ExecContext& exec, const LookUpArgs& args, const VectorOps& ops) {
  const CacheType type = cache_type(args.type);
  const std::size_t row_bytes = args.n * tensor::size_of(args.type);
  for_rows(exec, args.ids.size(), args.n, [&](std::size_t row) {
    const std::byte* from = args.table + static_cast<std::size_t>(args.ids[row]) * row_bytes;
    ops.load_row(args.y + row * args.y_stride, from, type, args.n, args.scale, args.accumulate);
  });
}

void run_look_up_packed(ExecContext& exec, const LookUpPackedArgs& args, const VectorOps& ops) {
  const std::size_t k = args.pieces.front().k;
  for_rows(exec, args.ids.size(), k, [&](std::size_t row) {
    float* const y = args.y + row * args.y_stride;
    auto at = static_cast<std::size_t>(args.ids[row]);
    const MatrixImage* piece = args.pieces.data();
    for (; at >= piece->n; ++piece) at -= piece->n;
    piece->ops->unpack_row(*piece, at, y);
    if (args.scale != 1.0F) ops.soft_cap(y, k, args.scale, 0.0F);
  });
}

void run_choose_experts(ExecContext& exec, const ChooseExpertsArgs& args, const VectorOps& ops) {
  for_rows(exec, args.m, args.n_experts * (args.n_used + 8), [&](std::size_t row) {
    choose_of_row(args, row, ops);
  });
}

void run_group_rows(ExecContext&, const GroupRowsArgs& args) {
  const std::size_t n = args.m * args.n_used;
  std::uint32_t* const begin = args.begin;
  std::fill(begin, begin + args.n_experts + 1, 0U);
  for (std::size_t i = 0; i < n; ++i) ++begin[args.ids[i] + 1];
  for (std::size_t e = 0; e < args.n_experts; ++e) begin[e + 1] += begin[e];
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t slot = begin[args.ids[i]]++;
    args.slots[i] = slot;
    args.rows[slot] = static_cast<std::uint32_t>(i / args.n_used);
  }
  // The loop above moved each begin to its end, which is the next one's begin.
  for (std::size_t e = args.n_experts; e > 0; --e) begin[e] = begin[e - 1];
  begin[0] = 0;
}

void run_gather(ExecContext& exec, const GatherArgs& args) {
  for_rows(exec, args.m, args.n, [&](std::size_t row) {
    const std::size_t from = args.rows != nullptr ? args.rows[row] : row;
    std::memcpy(
        args.y + row * args.y_stride, args.x + from * args.x_stride, args.n * sizeof(float));
  });
}

void run_combine(ExecContext& exec, const CombineArgs& args, const VectorOps& ops) {
  for_rows(exec, args.m, args.n * args.n_used, [&](std::size_t row) {
    CombineRow one{};
    one.x = args.x;
    one.x_stride = args.x_stride;
    one.slots = args.slots + row * args.n_used;
    one.weights = args.weights + row * args.n_used;
    one.n_used = args.n_used;
    one.y = args.y + row * args.y_stride;
    one.n = args.n;
    one.accumulate = args.accumulate;
    ops.combine(&one);
  });
}

}  // namespace coxswain::kernels
