#include "model/blocks/norm.h"

#include "model/step_context.h"

namespace coxswain::model {
namespace {

void run(const StepContext& step,
         const NormSpec& spec,
         const NormWeights& w,
         kernels::NormArgs& args) {
  args.weight = w.weight.empty() ? nullptr : w.weight.data();
  args.bias = w.bias.empty() ? nullptr : w.bias.data();
  args.epsilon = spec.epsilon;
  args.weight_offset = spec.weight_offset;
  (spec.kind == NormKind::kRms ? step.kernels.rms_norm : step.kernels.layer_norm)(step.exec, args);
}

}  // namespace

void run_norm(const StepContext& step,
              const NormSpec& spec,
              const NormWeights& w,
              const float* x,
              float* y,
              std::size_t m) {
  const std::size_t width = step.hidden;
  kernels::NormArgs args;
  args.x = x;
  args.x_stride = width;
  args.y = y;
  args.y_stride = width;
  args.m = m;
  args.n = width;
  run(step, spec, w, args);
}

void run_norm(const StepContext& step,
              const NormSpec& spec,
              const NormWeights& w,
              const NormedRows& rows) {
  kernels::NormArgs args;
  args.x = rows.data;
  args.x_stride = rows.stride;
  args.y = rows.data;
  args.y_stride = rows.stride;
  args.m = rows.m;
  args.n = rows.n;
  args.groups = rows.groups;
  args.weight_per_group = rows.weight_per_group;
  run(step, spec, w, args);
}

}  // namespace coxswain::model
