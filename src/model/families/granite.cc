// granite: llama with four multipliers (embedding, attention, residual, logits).

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_granite(ConfigReader& config) {
  Architecture out = read_llama(config);
  ArchSpec& arch = out.arch;
  arch.embedding.scale =
      static_cast<float>(config.number_or("embedding_multiplier", 1e-6, 1e6, 1.0));
  arch.residual_multiplier =
      static_cast<float>(config.number_or("residual_multiplier", 1e-6, 1e6, 1.0));
  arch.head.scale = static_cast<float>(1.0 / config.number_or("logits_scaling", 1e-6, 1e6, 1.0));
  const auto scale = static_cast<float>(config.number_or("attention_multiplier", 1e-6, 1e6, 1.0));
  for (LayerSpec& layer : arch.layers) layer.attention().scale = scale;
  return out;
}

}  // namespace coxswain::model
