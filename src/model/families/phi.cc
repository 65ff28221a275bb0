// phi (1, 1.5, 2): attention and MLP in parallel behind one layer norm, partial rotary, biases
// everywhere.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_phi(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_eps");
  arch.mlp = {.gate = GateKind::kNone,
              .activation = read_activation(config, "hidden_act", "gelu_new")};
  arch.tied = config.flag_or("tie_word_embeddings", false);
  arch.parallel = true;
  RopeDefaults rope;
  rope.partial = 0.5;
  rope.takes_partial = true;
  add_rope(arch, read_rope(config, arch, rope));
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
    layer.mlp = plain_mlp(
        arch, prefix + "mlp.fc1", prefix + "mlp.fc2", arch.layers[i].intermediate, Bias::kYes);
    if (qk_norm) {
      layer.q_norm = norm(prefix + "self_attn.q_layernorm", arch.attention.head_dim, Bias::kYes);
      layer.k_norm = norm(prefix + "self_attn.k_layernorm", arch.attention.head_dim, Bias::kYes);
    }
    out.tensors.layers.push_back(std::move(layer));
  }
  if (qk_norm) {
    arch.attention.qk_norm = QkNorm::kPerHead;
    arch.attention.qk_norm_spec = arch.norm;
  }
  return out;
}

}  // namespace coxswain::model
