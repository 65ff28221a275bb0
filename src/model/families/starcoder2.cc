// starcoder2: layer norms, biases, a plain MLP with tanh GELU, a window on every layer.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_starcoder2(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config, {.n_kv_heads = 2});
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "norm_epsilon");
  set_mlp(arch, GateKind::kNone, read_activation(config, "hidden_act", "gelu_pytorch_tanh"));
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  add_rope(arch, read_rope(config, rope_shape(arch), {}));
  const std::uint32_t window = read_window(config, 0);
  set_window(arch, window);
  read_layer_types(config, arch, window);
  LlamaNames names;
  const Bias bias = bias_if(config.flag_or("use_bias", true));
  names.qkv_bias = bias;
  names.out_bias = bias;
  names.norm_bias = Bias::kYes;
  out.tensors = llama_outer(arch, names);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer = llama_attention(arch, prefix, names);
    layer.mlp() = plain_mlp(
        arch, prefix + "mlp.c_fc", prefix + "mlp.c_proj", arch.layers[i].mlp().intermediate, bias);
    out.tensors.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
