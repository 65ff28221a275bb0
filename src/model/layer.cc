#include "model/layer.h"

#include <utility>
#include <variant>

#include "model/weight_loader.h"

namespace coxswain::model {
namespace {

// The block of a spec, from the map of the same kind.
template <typename AnyBlock, typename AnySpec, typename AnyMap>
Result<AnyBlock> load_block(const BlockLoad& how, const AnySpec& any_spec, const AnyMap& any_map) {
  return std::visit(
      [&](const auto& spec) -> Result<AnyBlock> {
        using Block = BlockOf<decltype(spec)>;
        const auto* map = std::get_if<typename Block::Map>(&any_map);
        if (map == nullptr) return internal_error("a layer's tensors are not those of its kind");
        COXSWAIN_ASSIGN_OR_RETURN(Block block, Block::load(how, spec, *map));
        return AnyBlock(std::move(block));
      },
      any_spec);
}

}  // namespace

Result<Layer> Layer::load(const BlockLoad& how, const LayerSpec& spec, const LayerMap& map) {
  Layer out;
  COXSWAIN_ASSIGN_OR_RETURN(out.mixer_norm_, how.loader.norm(map.mixer_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.mixer_norm_after_, how.loader.norm(map.mixer_norm_after));
  COXSWAIN_ASSIGN_OR_RETURN(out.feed_forward_norm_, how.loader.norm(map.feed_forward_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.feed_forward_norm_after_,
                            how.loader.norm(map.feed_forward_norm_after));
  COXSWAIN_ASSIGN_OR_RETURN(out.mixer_, load_block<Mixer>(how, spec.mixer, map.mixer));
  COXSWAIN_ASSIGN_OR_RETURN(out.feed_forward_,
                            load_block<FeedForward>(how, spec.feed_forward, map.feed_forward));
  return out;
}

void Layer::run_mixer(const StepContext& step,
                      const kernels::KvLayerView& cache,
                      const float* x,
                      float* y,
                      bool accumulate) const {
  std::visit([&](const auto& mixer) { mixer.run(step, step.work.room, cache, x, y, accumulate); },
             mixer_);
}

void Layer::run_feed_forward(const StepContext& step,
                             const float* x,
                             float* y,
                             bool accumulate) const {
  std::visit([&](const auto& block) { block.run(step, step.work.room, x, y, accumulate); },
             feed_forward_);
}

void Layer::run(const StepContext& step,
                const ArchSpec& arch,
                const kernels::KvLayerView& cache,
                float* hidden) const {
  // A block's output goes straight into the residual stream where nothing stands between.
  const bool direct = !arch.norm_after && arch.residual_multiplier == 1.0F;
  const bool after_residual = arch.placement == NormPlacement::kAfterResidual;
  const bool norms_input = arch.norm_before && !after_residual;
  float* const output = direct ? hidden : step.work.output.data();
  const auto norm = [&](const NormWeights& w, const float* x, float* y) {
    run_norm(step, arch.norm, w, x, y, step.n_rows);
  };
  const auto enter = [&](const NormWeights& w, std::span<float> normed) -> const float* {
    if (!norms_input) return hidden;
    norm(w, hidden, normed.data());
    return normed.data();
  };
  const auto add_output = [&](const NormWeights& after) {
    if (direct) return;
    if (arch.norm_after) norm(after, output, output);
    step.add(output, hidden, arch.residual_multiplier);
  };
  const auto leave = [&](const NormWeights& placed) {
    if (after_residual) norm(placed, hidden, hidden);
  };

  const float* x = enter(mixer_norm_, step.work.normed);
  const float* beside = x;
  if (arch.parallel && arch.parallel_feed_forward_norm)
    beside = enter(feed_forward_norm_, step.work.normed_beside);
  if (arch.residual_from_norm) step.copy(x, hidden);
  run_mixer(step, cache, x, output, direct);
  add_output(mixer_norm_after_);
  if (!arch.parallel) {
    leave(mixer_norm_);
    beside = enter(feed_forward_norm_, step.work.normed);
    if (arch.residual_from_norm) step.copy(beside, hidden);
  }
  run_feed_forward(step, beside, output, direct);
  add_output(feed_forward_norm_after_);
  leave(feed_forward_norm_);
}

}  // namespace coxswain::model
