#pragma once
// Layer: a mixer and a feed-forward wired to the residual stream. arch_spec.h draws how.
//
// Thread rule: immutable after load.

#include <cstddef>

#include <coxswain/status.h>

#include "kernels/attention_args.h"
#include "model/architecture.h"
#include "model/step_context.h"

namespace coxswain::model {

class Layer {
 public:
  static Result<Layer> load(const BlockLoad& how, const LayerSpec& spec, const LayerMap& map);

  // hidden [n_rows, hidden] in place.
  void run(const StepContext& step,
           const ArchSpec& arch,
           const kernels::KvLayerView& cache,
           float* hidden) const;

 private:
  void run_mixer(const StepContext& step,
                 const kernels::KvLayerView& cache,
                 const float* x,
                 float* y,
                 bool accumulate) const;
  void run_feed_forward(const StepContext& step, const float* x, float* y, bool accumulate) const;

  NormWeights mixer_norm_;
  NormWeights mixer_norm_after_;
  NormWeights feed_forward_norm_;
  NormWeights feed_forward_norm_after_;
  Mixer mixer_;
  FeedForward feed_forward_;
};

}  // namespace coxswain::model
