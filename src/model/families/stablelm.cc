// stablelm: llama with layer norms and partial rotary; the 12B has a norm for each head of q and k
// and a parallel residual.

#include "model/families/common.h"

namespace coxswain::model {
namespace {

NormMap norms_by_head(const std::string& name, std::uint32_t n_heads, std::uint32_t head_dim) {
  NormMap out;
  out.weight.size = std::uint64_t{n_heads} * head_dim;
  for (std::uint32_t h = 0; h < n_heads; ++h)
    out.weight.tensors.push_back(layer_prefix(name + ".norms.", h) + "weight");
  return out;
}

}  // namespace

Architecture read_stablelm(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config, {.n_kv_heads = 32});
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_eps");
  set_activation(arch, read_activation(config, "hidden_act", "silu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  arch.parallel = config.flag_or("use_parallel_residual", false);
  RopeDefaults rope;
  rope.partial = 0.25;
  rope.takes_partial = true;
  add_rope(arch, read_rope(config, rope_shape(arch), rope));
  LlamaNames names;
  names.qkv_bias = bias_if(config.flag_or("use_qkv_bias", false));
  names.norm_bias = Bias::kYes;
  out.tensors = llama_tensors(arch, names);
  if (config.flag_or("qk_layernorm", false)) {
    set_qk_norm(arch, QkNorm::kOwnPerHead);
    const AttentionSpec& a = attention_of(arch);
    for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
      const std::string prefix = layer_prefix("layers.", i);
      out.tensors.layers[i].attention().q_norm =
          norms_by_head(prefix + "self_attn.q_layernorm", a.n_heads, a.head_dim);
      out.tensors.layers[i].attention().k_norm =
          norms_by_head(prefix + "self_attn.k_layernorm", a.n_kv_heads, a.head_dim);
    }
  }
  return out;
}

}  // namespace coxswain::model
