// granite: llama with four multipliers (embedding, attention, residual, logits).

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_granite(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_rms_norm(config, 1e-6);
  arch.mlp.activation = read_activation(config, "hidden_act", "silu");
  arch.tied = config.flag_or("tie_word_embeddings", false);
  arch.embedding_scale =
      static_cast<float>(config.number_or("embedding_multiplier", 1e-6, 1e6, 1.0));
  arch.residual_multiplier =
      static_cast<float>(config.number_or("residual_multiplier", 1e-6, 1e6, 1.0));
  arch.logit_scale = static_cast<float>(1.0 / config.number_or("logits_scaling", 1e-6, 1e6, 1.0));
  const auto scale = static_cast<float>(config.number_or("attention_multiplier", 1e-6, 1e6, 1.0));
  for (LayerSpec& layer : arch.layers) layer.attention_scale = scale;
  add_rope(arch, read_rope(config, arch, {}));
  LlamaNames names = read_llama_names(config, false);
  names.mlp_bias = bias_if(config.flag_or("mlp_bias", false));
  out.tensors = llama_tensors(arch, names);
  return out;
}

}  // namespace coxswain::model
