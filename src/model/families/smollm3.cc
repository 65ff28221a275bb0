// smollm3: llama with layers that have no rotary embedding.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_smollm3(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config, {.n_kv_heads = 4});
  ArchSpec& arch = out.arch;
  arch.norm = read_rms_norm(config, 1e-6);
  set_activation(arch, read_activation(config, "hidden_act", "silu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  RopeDefaults rope;
  rope.theta = 2e6;
  add_rope(arch, read_rope(config, rope_shape(arch), rope));

  // no_rope_layers holds 1 for a layer that turns and 0 for one that does not.
  const std::uint32_t interval = config.count_or("no_rope_layer_interval", 1, kLayersMax, 4);
  auto turns = config.counts_or_empty("no_rope_layers", kLayersMax, 1);
  if (turns.empty()) {
    for (std::uint32_t i = 0; i < arch.n_layers(); ++i)
      turns.push_back((i + 1) % interval == 0 ? 0 : 1);
  }
  if (turns.size() != arch.layers.size()) {
    config.fail("no_rope_layers",
                "has " + std::to_string(turns.size()) + " entries for " +
                    std::to_string(arch.layers.size()) + " layers");
    return out;
  }
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    if (turns[i] == 0) arch.layers[i].attention().rope = -1;
  }
  const bool windows = config.flag_or("use_sliding_window", false);
  const std::uint32_t window = windows ? read_window(config, 0) : 0;
  if (!read_layer_types(config, arch, window)) {
    for (LayerSpec& layer : arch.layers)
      layer.attention().window = layer.attention().rope < 0 ? window : 0;
  }
  LlamaNames names = read_llama_names(config, false);
  names.mlp_bias = bias_if(config.flag_or("mlp_bias", false));
  out.tensors = llama_tensors(arch, names);
  return out;
}

}  // namespace coxswain::model
