#include "model/blocks/mlp.h"

#include <algorithm>

#include "model/step_context.h"
#include "model/weight_loader.h"

namespace coxswain::model {
namespace {

void run_clamped_swiglu(const StepContext& step, const MlpSpec& spec, float* inner, std::size_t m) {
  kernels::ClampedSwigluArgs args;
  args.gate = inner;
  args.gate_stride = spec.inner_width();
  args.up = inner + spec.intermediate;
  args.up_stride = spec.inner_width();
  args.y = inner;
  args.y_stride = spec.inner_width();
  args.m = m;
  args.n = spec.intermediate;
  args.limit = spec.swiglu_limit;
  args.alpha = spec.swiglu_alpha;
  step.kernels.clamped_swiglu(step.exec, args);
}

}  // namespace

Result<MlpWeights> load_mlp(const BlockLoad& how, const MlpMap& map) {
  MlpWeights out;
  COXSWAIN_ASSIGN_OR_RETURN(out.up, how.loader.linear(map.up, how.format));
  COXSWAIN_ASSIGN_OR_RETURN(out.down, how.loader.linear(map.down, how.format));
  return out;
}

void run_activation(const StepContext& step, const MlpSpec& spec, float* inner, std::size_t m) {
  if (spec.gate == GateKind::kClampedSwiglu) return run_clamped_swiglu(step, spec, inner, m);
  kernels::ActivationArgs args;
  args.gate = inner;
  args.gate_stride = spec.inner_width();
  args.up = spec.gate == GateKind::kGated ? inner + spec.intermediate : nullptr;
  args.up_stride = spec.inner_width();
  args.y = inner;
  args.y_stride = spec.inner_width();
  args.m = m;
  args.n = spec.intermediate;
  args.activation = spec.activation;
  step.kernels.activation(step.exec, args);
}

Result<Mlp> Mlp::load(const BlockLoad& how, const Spec& spec, const Map& map) {
  Mlp out;
  out.spec_ = spec;
  COXSWAIN_ASSIGN_OR_RETURN(out.weights_, load_mlp(how, map));
  return out;
}

BlockNeeds Mlp::needs(const Spec& spec, const BlockSizes& sizes) {
  Carver counted;
  counted.take<float>(sizes.n_rows * spec.inner_width());
  const std::size_t k_max = std::max<std::size_t>(sizes.hidden, spec.intermediate);
  return {counted.taken(), sizes.linear_scratch(k_max)};
}

void Mlp::run(const StepContext& step,
              std::span<std::byte> room,
              const float* x,
              float* y,
              bool accumulate) const {
  float* const inner = Carver(room).take<float>(step.n_rows * spec_.inner_width()).data();
  std::size_t stride = spec_.inner_width();
  if (spec_.gate == GateKind::kGated && StepContext::gates(weights_.up)) {
    stride = spec_.intermediate;
    step.gated(weights_.up, spec_.activation, x, inner, step.n_rows);
  } else {
    step.linear(weights_.up, x, inner, step.n_rows);
    run_activation(step, spec_, inner, step.n_rows);
  }
  step.linear(weights_.down, {inner, stride}, y, step.n_rows, accumulate);
}

}  // namespace coxswain::model
