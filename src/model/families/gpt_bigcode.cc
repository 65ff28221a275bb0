// gpt_bigcode (StarCoder 1, SantaCoder): gpt2 with one kv head, weights stored as [outputs, inputs].

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_gpt_bigcode(ConfigReader& config) {
  Architecture out = read_gpt2(config);
  ArchSpec& arch = out.arch;
  set_activation(arch, read_activation(config, "activation_function", "gelu_pytorch_tanh"));
  const bool one_kv_head = config.flag_or("multi_query", true);
  if (one_kv_head) {
    for (LayerSpec& layer : arch.layers) layer.attention().n_kv_heads = 1;
  }
  const std::uint64_t hidden = arch.hidden_size;
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("h.", i);
    LayerMap& layer = out.tensors.layers[i];
    layer.attention().qkv = interleaved_qkv(
        arch, prefix + "attn.c_attn", one_kv_head ? 1 : attention_of(arch).n_heads, Bias::kYes);
    layer.attention().out =
        matrix(hidden, {whole(prefix + "attn.c_proj", hidden, hidden, Bias::kYes)});
    layer.mlp() = plain_mlp(arch,
                            prefix + "mlp.c_fc",
                            prefix + "mlp.c_proj",
                            arch.layers[i].mlp().intermediate,
                            Bias::kYes);
  }
  return out;
}

}  // namespace coxswain::model
