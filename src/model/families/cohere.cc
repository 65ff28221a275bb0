// cohere (Command R): attention and MLP in parallel behind one layer norm without bias, interleaved
// rotary pairs, scaled logits.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_cohere(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_eps");
  set_activation(arch, read_activation(config, "hidden_act", "silu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  arch.parallel = true;
  arch.head.scale = static_cast<float>(config.number_or("logit_scale", 1e-6, 1e6, 0.0625));
  if (config.flag_or("use_qk_norm", false)) {
    set_qk_norm(arch, QkNorm::kOwnPerHead);
  }
  RopeDefaults rope;
  rope.theta = 5e5;
  rope.style = kernels::RopeStyle::kInterleaved;
  add_rope(arch, read_rope(config, rope_shape(arch), rope));
  out.tensors = llama_tensors(arch, read_llama_names(config, false));
  return out;
}

}  // namespace coxswain::model
