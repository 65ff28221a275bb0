// llama: RMS norms, rotary attention with grouped heads, gated SiLU; optional biases and tied head
// (Llama 1 to 3, SmolLM2, Yi, ...).

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_llama(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_rms_norm(config, 1e-6);
  set_activation(arch, read_activation(config, "hidden_act", "silu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  add_rope(arch, read_rope(config, rope_shape(arch), {}));
  LlamaNames names = read_llama_names(config, false);
  names.mlp_bias = bias_if(config.flag_or("mlp_bias", false));
  out.tensors = llama_tensors(arch, names);
  return out;
}

}  // namespace coxswain::model
