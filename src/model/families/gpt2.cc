// gpt2: learned positions, layer norms with biases, weights stored as [inputs, outputs].

#include <cmath>

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_gpt2(ConfigReader& config) {
  Architecture out;
  const Shape shape = read_gpt2_shape(config);
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_epsilon");
  set_mlp(arch, GateKind::kNone, read_activation(config, "activation_function", "gelu_new"));
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  arch.embedding.n_positions = shape.max_positions;
  if (config.flag_or("add_cross_attention", false))
    config.unsupported("add_cross_attention", "true is not supported");
  const bool scaled = config.flag_or("scale_attn_weights", true);
  const bool by_layer = config.flag_or("scale_attn_by_inverse_layer_idx", false);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    if (!scaled) arch.layers[i].attention().scale = 1.0F;
    if (by_layer) arch.layers[i].attention().scale /= static_cast<float>(i + 1);
  }

  const std::uint64_t hidden = shape.hidden;
  const std::uint64_t inner = shape.intermediate;
  out.tensors = transformer_outer(arch, "wte", norm("ln_f", hidden, Bias::kYes));
  TensorMap& map = out.tensors;
  map.embedding.positions = matrix(hidden, {whole("wpe", shape.max_positions, hidden)});
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("h.", i);
    LayerMap layer;
    layer.mixer_norm = norm(prefix + "ln_1", hidden, Bias::kYes);
    layer.feed_forward_norm = norm(prefix + "ln_2", hidden, Bias::kYes);
    layer.attention().qkv =
        matrix(hidden, {transposed(prefix + "attn.c_attn", 3 * hidden, hidden, Bias::kYes)});
    layer.attention().out =
        matrix(hidden, {transposed(prefix + "attn.c_proj", hidden, hidden, Bias::kYes)});
    layer.mlp().up = matrix(hidden, {transposed(prefix + "mlp.c_fc", inner, hidden, Bias::kYes)});
    layer.mlp().down =
        matrix(inner, {transposed(prefix + "mlp.c_proj", hidden, inner, Bias::kYes)});
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
