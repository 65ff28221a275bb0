// The MLP of one layer: dense, or a mixture of experts.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/decoder.h"

namespace coxswain::model {
namespace {

// Scores of one row become weights, and the n_used best experts go to `ids`, ascending. Ties go to
// the lower id.
void choose_experts(const MoeSpec& moe,
                    std::span<float> scores,
                    std::span<std::uint32_t> ids,
                    std::span<Assignment> chosen) {
  const auto softmax = [&](auto&& each) {
    float maximum = -INFINITY;
    float sum = 0.0F;
    each([&](float& s) { maximum = std::max(maximum, s); });
    each([&](float& s) { sum += s = std::exp(s - maximum); });
    each([&](float& s) { s /= sum; });
  };
  if (moe.routing == Routing::kSoftmaxThenTop) {
    softmax([&](auto&& visit) {
      for (float& s : scores) visit(s);
    });
  }
  for (std::uint32_t n = 0; n < moe.n_used; ++n) {
    std::uint32_t best = moe.n_experts;
    for (std::uint32_t e = 0; e < moe.n_experts; ++e) {
      const bool taken = std::find(ids.begin(), ids.begin() + n, e) != ids.begin() + n;
      if (!taken && (best == moe.n_experts || scores[e] > scores[best])) best = e;
    }
    ids[n] = best;
  }
  std::sort(ids.begin(), ids.end());
  if (moe.routing == Routing::kTopThenSoftmax) {
    softmax([&](auto&& visit) {
      for (const std::uint32_t e : ids) visit(scores[e]);
    });
  }
  float sum = 1.0F;
  if (moe.routing == Routing::kSoftmaxThenTop && moe.normalise) {
    sum = 0.0F;
    for (const std::uint32_t e : ids) sum += scores[e];
  }
  for (std::size_t i = 0; i < ids.size(); ++i) chosen[i].weight = scores[ids[i]] / sum;
}

// Gives every (row, expert) its place among the rows gathered by expert.
void place_rows(const StepContext& step) {
  const MoeSpec& moe = step.arch.moe;
  Workspace& work = step.work;
  const std::size_t n = step.n_rows * moe.n_used;
  std::fill(work.expert_begin.begin(), work.expert_begin.end(), 0U);
  for (std::size_t i = 0; i < n; ++i) ++work.expert_begin[work.expert_ids[i] + 1];
  for (std::size_t e = 0; e < moe.n_experts; ++e) work.expert_begin[e + 1] += work.expert_begin[e];
  for (std::size_t i = 0; i < n; ++i) {
    work.assignments[i].row = static_cast<std::uint32_t>(i / moe.n_used);
    work.assignments[i].slot = work.expert_begin[work.expert_ids[i]]++;
  }
  // The loop above moved each begin to its end, which is the next one's begin.
  for (std::size_t e = moe.n_experts; e > 0; --e) work.expert_begin[e] = work.expert_begin[e - 1];
  work.expert_begin[0] = 0;
}

void run_shared_expert(const StepContext& step, const LayerWeights& w, const float* x, float* y) {
  const std::size_t hidden = step.arch.hidden_size;
  Workspace& work = step.work;
  // The gathered rows are spent by now.
  float* const out = work.expert_rows.data();
  run_mlp(step, w.shared_expert, step.arch.moe.shared_intermediate, x, out, false);
  if (!w.shared_gate.empty()) step.linear(w.shared_gate, x, work.router.data(), step.n_rows);
  step.pool.run(step.n_rows, [&](std::size_t row, std::size_t) {
    const float gate = w.shared_gate.empty() ? 1.0F : 1.0F / (1.0F + std::exp(-work.router[row]));
    float* const to = y + row * hidden;
    const float* const from = out + row * hidden;
    for (std::size_t i = 0; i < hidden; ++i) to[i] += gate * from[i];
  });
}

}  // namespace

void run_activation(const StepContext& step, float* inner, std::size_t m, std::size_t width) {
  const MlpSpec& mlp = step.arch.mlp;
  if (mlp.gate == GateKind::kClampedSwiglu) {
    step.pool.run(m, [&](std::size_t row, std::size_t) {
      float* const gate = inner + row * 2 * width;
      const float* const up = gate + width;
      for (std::size_t i = 0; i < width; ++i) {
        const float g = std::min(gate[i], mlp.swiglu_limit);
        const float u = std::clamp(up[i], -mlp.swiglu_limit, mlp.swiglu_limit);
        gate[i] = (u + 1.0F) * (g / (1.0F + std::exp(-mlp.swiglu_alpha * g)));
      }
    });
    return;
  }
  const bool gated = mlp.gate == GateKind::kGated;
  kernels::ActivationArgs args;
  args.gate = inner;
  args.gate_stride = gated ? 2 * width : width;
  args.up = gated ? inner + width : nullptr;
  args.up_stride = args.gate_stride;
  args.y = inner;
  args.y_stride = args.gate_stride;
  args.m = m;
  args.n = width;
  args.activation = mlp.activation;
  step.kernels.activation(step.pool, args);
}

void run_mlp(const StepContext& step,
             const MlpWeights& w,
             std::size_t intermediate,
             const float* x,
             float* y,
             bool accumulate) {
  float* const inner = step.work.inner.data();
  step.linear(w.up, x, inner, step.n_rows);
  run_activation(step, inner, step.n_rows, intermediate);
  step.linear(w.down, {inner, w.up.matrix.n}, y, step.n_rows, accumulate);
}

void run_moe(
    const StepContext& step, const LayerWeights& w, const float* x, float* y, bool accumulate) {
  const MoeSpec& moe = step.arch.moe;
  Workspace& work = step.work;
  const std::size_t hidden = step.arch.hidden_size;
  step.linear(w.router, x, work.router.data(), step.n_rows);
  step.pool.run(step.n_rows, [&](std::size_t row, std::size_t) {
    choose_experts(moe,
                   work.router.subspan(row * moe.n_experts, moe.n_experts),
                   work.expert_ids.subspan(row * moe.n_used, moe.n_used),
                   work.assignments.subspan(row * moe.n_used, moe.n_used));
  });
  place_rows(step);
  const std::size_t n_slots = step.n_rows * moe.n_used;
  step.pool.run(n_slots, [&](std::size_t i, std::size_t) {
    const Assignment& to = work.assignments[i];
    std::memcpy(
        work.expert_rows.data() + to.slot * hidden, x + to.row * hidden, hidden * sizeof(float));
  });
  const std::size_t inner_width = w.experts.front().up.matrix.n;
  for (std::size_t e = 0; e < moe.n_experts; ++e) {
    const std::size_t begin = work.expert_begin[e];
    const std::size_t count = work.expert_begin[e + 1] - begin;
    if (count == 0) continue;
    step.linear(w.experts[e].up,
                work.expert_rows.data() + begin * hidden,
                work.expert_inner.data() + begin * inner_width,
                count);
  }
  run_activation(step, work.expert_inner.data(), n_slots, moe.intermediate);
  for (std::size_t e = 0; e < moe.n_experts; ++e) {
    const std::size_t begin = work.expert_begin[e];
    const std::size_t count = work.expert_begin[e + 1] - begin;
    if (count == 0) continue;
    step.linear(w.experts[e].down,
                {work.expert_inner.data() + begin * inner_width, inner_width},
                work.expert_rows.data() + begin * hidden,
                count);
  }
  step.pool.run(step.n_rows, [&](std::size_t row, std::size_t) {
    float* const to = y + row * hidden;
    if (!accumulate) std::fill(to, to + hidden, 0.0F);
    for (std::size_t j = 0; j < moe.n_used; ++j) {
      const Assignment& from = work.assignments[row * moe.n_used + j];
      const float* const out = work.expert_rows.data() + from.slot * hidden;
      for (std::size_t i = 0; i < hidden; ++i) to[i] += from.weight * out[i];
    }
  });
  if (moe.shared_intermediate > 0) run_shared_expert(step, w, x, y);
}

}  // namespace coxswain::model
