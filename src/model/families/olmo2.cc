// olmo2: norms after attention and MLP instead of before, and on q and k over their whole width.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_olmo2(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_rms_norm(config, 1e-5);
  arch.norm_before = false;
  arch.norm_after = true;
  set_activation(arch, read_activation(config, "hidden_act", "silu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  set_qk_norm(arch, QkNorm::kWhole);
  add_rope(arch, read_rope(config, rope_shape(arch), {}));
  out.tensors = llama_tensors(arch, read_llama_names(config, false));
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    out.tensors.layers[i].mixer_norm_after =
        norm(prefix + "post_attention_layernorm", arch.hidden_size);
    out.tensors.layers[i].feed_forward_norm_after =
        norm(prefix + "post_feedforward_layernorm", arch.hidden_size);
  }
  return out;
}

}  // namespace coxswain::model
