// phi (1, 1.5, 2): attention and MLP in parallel behind one layer norm, partial rotary, biases everywhere.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_phi(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_eps");
  set_mlp(arch, GateKind::kNone, read_activation(config, "hidden_act", "gelu_new"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  arch.parallel = true;
  RopeDefaults rope;
  rope.partial = 0.5;
  rope.takes_partial = true;
  add_rope(arch, read_rope(config, rope_shape(arch), rope));
  const bool qk_norm = config.flag_or("qk_layernorm", false);
  LlamaNames names;
  names.qkv_bias = Bias::kYes;
  names.out_bias = Bias::kYes;
  names.norm_bias = Bias::kYes;
  names.out = "self_attn.dense";
  names.final_norm = "final_layernorm";
  out.tensors = llama_outer(arch, names);
  add_head_bias(arch, out.tensors);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer = llama_attention(arch, prefix, names);
    layer.mlp() = plain_mlp(arch,
                            prefix + "mlp.fc1",
                            prefix + "mlp.fc2",
                            arch.layers[i].mlp().intermediate,
                            Bias::kYes);
    if (qk_norm) {
      layer.attention().q_norm =
          norm(prefix + "self_attn.q_layernorm", attention_of(arch).head_dim, Bias::kYes);
      layer.attention().k_norm =
          norm(prefix + "self_attn.k_layernorm", attention_of(arch).head_dim, Bias::kYes);
    }
    out.tensors.layers.push_back(std::move(layer));
  }
  if (qk_norm) {
    set_qk_norm(arch, QkNorm::kPerHead);
  }
  return out;
}

}  // namespace coxswain::model
