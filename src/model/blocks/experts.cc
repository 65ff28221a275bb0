#include "model/blocks/experts.h"

#include <algorithm>

#include "model/step_context.h"
#include "model/weight_loader.h"

namespace coxswain::model {

Result<Experts> Experts::load(const BlockLoad& how, const Spec& spec, const Map& map) {
  Experts out;
  out.spec_ = spec;
  COXSWAIN_ASSIGN_OR_RETURN(out.router_, how.loader.linear(map.router, kernels::formats::kFloat32));
  for (const MlpMap& expert : map.experts) {
    COXSWAIN_ASSIGN_OR_RETURN(MlpWeights weights, load_mlp(how, expert));
    out.experts_.push_back(std::move(weights));
  }
  out.gates_ = spec.expert.gate == GateKind::kGated &&
               std::all_of(out.experts_.begin(), out.experts_.end(), [](const MlpWeights& w) {
                 return StepContext::gates(w.up);
               });
  if (spec.shared) {
    COXSWAIN_ASSIGN_OR_RETURN(out.shared_, Mlp::load(how, *spec.shared, map.shared));
    COXSWAIN_ASSIGN_OR_RETURN(out.shared_gate_,
                              how.loader.linear(map.shared_gate, kernels::formats::kFloat32));
  }
  return out;
}

Experts::Buffers Experts::place(const Spec& spec, const BlockSizes& sizes, Carver& carver) {
  const std::size_t n_slots = sizes.n_rows * spec.n_used;
  Buffers out;
  out.scores = carver.take<float>(sizes.n_rows * spec.n_experts);
  out.rows = carver.take<float>(n_slots * sizes.hidden);
  out.inner = carver.take<float>(n_slots * spec.expert.inner_width());
  out.ids = carver.take<std::uint32_t>(n_slots);
  out.weights = carver.take<float>(n_slots);
  out.slots = carver.take<std::uint32_t>(n_slots);
  out.row_of = carver.take<std::uint32_t>(n_slots);
  out.begin = carver.take<std::uint32_t>(spec.n_experts + 1);
  out.problems = carver.take<kernels::LinearProblem>(spec.n_experts);
  out.pieces = carver.take<kernels::LinearPiece>(spec.n_experts * kLinearPiecesMax);
  return out;
}

BlockNeeds Experts::needs(const Spec& spec, const BlockSizes& sizes) {
  Carver counted;
  place(spec, sizes, counted);
  kernels::LinearShape call;
  call.rows = std::max(sizes.n_rows * spec.n_used, sizes.n_rows);
  call.k = std::max<std::size_t>(sizes.hidden, spec.expert.intermediate);
  call.n_pieces = spec.n_experts * kLinearPiecesMax;
  call.n_forms = sizes.linear.n_forms;
  call.n_threads = sizes.n_threads;
  call.gathers = true;
  BlockNeeds out{counted.taken(), kernels::linear_scratch_bytes(call)};
  if (spec.shared) {
    const BlockNeeds shared = Mlp::needs(*spec.shared, sizes);
    out.room_bytes += shared.room_bytes;
    out.scratch_bytes = std::max(out.scratch_bytes, shared.scratch_bytes);
  }
  return out;
}

// Chooses each row's experts and places rows beside each other by expert.
void Experts::choose(const StepContext& step, const Buffers& buffers) const {
  kernels::ChooseExpertsArgs choice;
  choice.scores = buffers.scores.data();
  choice.m = step.n_rows;
  choice.n_experts = spec_.n_experts;
  choice.n_used = spec_.n_used;
  choice.routing = spec_.routing;
  choice.normalize = spec_.normalize;
  choice.ids = buffers.ids.data();
  choice.weights = buffers.weights.data();
  step.kernels.choose_experts(step.exec, choice);

  kernels::GroupRowsArgs group;
  group.ids = buffers.ids.data();
  group.m = step.n_rows;
  group.n_used = spec_.n_used;
  group.n_experts = spec_.n_experts;
  group.begin = buffers.begin.data();
  group.slots = buffers.slots.data();
  group.rows = buffers.row_of.data();
  step.kernels.group_rows(step.exec, group);
}

void Experts::run_linear(const StepContext& step,
                         const Buffers& buffers,
                         const kernels::LinearInput& input,
                         Linear MlpWeights::*layer,
                         float* y) const {
  const bool gathers = layer == &MlpWeights::up;
  const bool gates = gathers && gates_;
  std::size_t n_problems = 0;
  std::size_t n_pieces = 0;
  for (std::size_t e = 0; e < spec_.n_experts; ++e) {
    const std::size_t begin = buffers.begin[e];
    const std::size_t count = buffers.begin[e + 1] - begin;
    if (count == 0) continue;
    const Linear& w = experts_[e].*layer;
    const std::size_t first_piece = n_pieces;
    const std::size_t stride = gates ? w.n() / 2 : w.n();
    std::size_t n = 0;
    for (const kernels::MatrixImage& image : w.pieces) {
      const float* const bias = w.bias.empty() ? nullptr : w.bias.data() + n;
      kernels::LinearPiece& piece = buffers.pieces[n_pieces++];
      piece = {&image, y + begin * stride + n, stride, bias};
      if (gates) piece.gate = spec_.expert.activation;
      n += image.n;
    }
    kernels::LinearProblem& problem = buffers.problems[n_problems++];
    problem = {};
    problem.first = gathers ? 0 : begin;
    problem.m = count;
    problem.gather = gathers ? buffers.row_of.data() + begin : nullptr;
    problem.pieces = buffers.pieces.subspan(first_piece, n_pieces - first_piece);
  }
  step.kernels.linear(step.exec,
                      {.inputs = {&input, 1},
                       .problems = buffers.problems.first(n_problems),
                       .scratch = step.work.linear_scratch});
}

void Experts::run_experts(const StepContext& step, const Buffers& buffers, const float* x) const {
  const std::size_t n_slots = step.n_rows * spec_.n_used;
  float* const inner = buffers.inner.data();
  run_linear(step, buffers, {x, step.hidden, step.n_rows, step.hidden}, &MlpWeights::up, inner);
  if (!gates_) run_activation(step, spec_.expert, inner, n_slots);
  const std::size_t width = gates_ ? spec_.expert.intermediate : spec_.expert.inner_width();
  const kernels::LinearInput activated{inner, width, n_slots, spec_.expert.intermediate};
  run_linear(step, buffers, activated, &MlpWeights::down, buffers.rows.data());
}

void Experts::combine(const StepContext& step,
                      const Buffers& buffers,
                      float* y,
                      bool accumulate) const {
  kernels::CombineArgs sum;
  sum.x = buffers.rows.data();
  sum.x_stride = step.hidden;
  sum.slots = buffers.slots.data();
  sum.weights = buffers.weights.data();
  sum.n_used = spec_.n_used;
  sum.y = y;
  sum.y_stride = step.hidden;
  sum.m = step.n_rows;
  sum.n = step.hidden;
  sum.accumulate = accumulate;
  step.kernels.combine(step.exec, sum);
}

void Experts::add_shared(const StepContext& step,
                         std::span<std::byte> room,
                         const Buffers& buffers,
                         const float* x,
                         float* y) const {
  float* const out = buffers.rows.data();  // spent by now
  shared_.run(step, room, x, out, false);
  if (shared_gate_.empty()) return step.add(out, y, 1.0F);
  float* const gate = buffers.scores.data();
  step.linear(shared_gate_, x, gate, step.n_rows);
  step.kernels.gated_add(step.exec,
                         {out, step.hidden, gate, y, step.hidden, step.n_rows, step.hidden});
}

void Experts::run(const StepContext& step,
                  std::span<std::byte> room,
                  const float* x,
                  float* y,
                  bool accumulate) const {
  Carver carver(room);
  const Buffers buffers = place(spec_, {step.hidden, step.n_rows, step.exec.n_threads()}, carver);
  step.linear(router_, x, buffers.scores.data(), step.n_rows);
  choose(step, buffers);
  run_experts(step, buffers, x);
  combine(step, buffers, y, accumulate);
  if (spec_.shared) add_shared(step, carver.rest(), buffers, x, y);
}

}  // namespace coxswain::model
