// phi3: llama with fused qkv_proj and gate_up_proj, longrope for the long-context versions.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_phi3(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_rms_norm(config, 1e-5);
  set_activation(arch, read_activation(config, "hidden_act", "silu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  RopeDefaults rope;
  rope.original_max_positions = 4096;
  rope.yarn_is_longrope = true;
  rope.takes_partial = true;
  add_rope(arch, read_rope(config, rope_shape(arch), rope));
  const std::uint32_t window = read_window(config, 0);
  set_window(arch, window);
  read_layer_types(config, arch, window);
  const LlamaNames names;
  out.tensors = llama_tensors(arch, names);
  const std::uint64_t hidden = arch.hidden_size;
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap& layer = out.tensors.layers[i];
    layer.attention().qkv = matrix(
        hidden, {whole(prefix + "self_attn.qkv_proj", attention_of(arch).qkv_width(), hidden)});
    layer.mlp().up = matrix(hidden,
                            {whole(prefix + "mlp.gate_up_proj",
                                   std::uint64_t{2} * arch.layers[i].mlp().intermediate,
                                   hidden)});
  }
  return out;
}

}  // namespace coxswain::model
