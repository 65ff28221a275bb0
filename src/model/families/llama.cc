// llama: RMS norms, rotary attention with grouped heads, gated SiLU; optional biases and tied head
// (Llama 1 to 3, SmolLM2, Yi, ...).

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_llama(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm.epsilon = static_cast<float>(config.number_or("rms_norm_eps", 0.0, 1.0, 1e-6));
  arch.mlp.activation = read_activation(config, "hidden_act", "silu");
  arch.tied = config.flag_or("tie_word_embeddings", false);
  add_rope(arch, read_rope(config, arch, {}));
  LlamaNames names;
  names.qkv_bias = bias_if(config.flag_or("attention_bias", false));
  names.out_bias = names.qkv_bias;
  names.mlp_bias = bias_if(config.flag_or("mlp_bias", false));
  out.tensors = llama_tensors(arch, names);
  return out;
}

}  // namespace coxswain::model
