// gpt2: learned positions, layer norms with biases, weights stored as [inputs, outputs].

#include <cmath>

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_gpt2(ConfigReader& config) {
  Architecture out;
  Shape shape;
  shape.vocab = config.count("vocab_size", 1, kVocabMax);
  shape.hidden = config.count_of({"n_embd", "hidden_size"}, 1, kHiddenMax);
  shape.n_layers = config.count_of({"n_layer", "num_hidden_layers"}, 1, kLayersMax);
  shape.n_heads = config.count_of({"n_head", "num_attention_heads"}, 1, kHeadsMax);
  shape.n_kv_heads = shape.n_heads;
  shape.head_dim = divided(config, shape.hidden, shape.n_heads, "n_head");
  shape.intermediate = config.count_or("n_inner", 1, kIntermediateMax, 4 * shape.hidden);
  shape.max_positions =
      config.count_of({"n_positions", "max_position_embeddings"}, 1, kPositionsMax);
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = {NormKind::kLayer,
               static_cast<float>(config.number_or("layer_norm_epsilon", 0.0, 1.0, 1e-5)),
               0.0F};
  arch.mlp = {
      GateKind::kNone, read_activation(config, "activation_function", "gelu_new"), 0.0F, 0.0F};
  arch.tied = config.flag_or("tie_word_embeddings", true);
  arch.n_positions = shape.max_positions;
  if (config.flag_or("add_cross_attention", false))
    config.unsupported("add_cross_attention", "true is not supported");
  const bool scaled = config.flag_or("scale_attn_weights", true);
  const bool by_layer = config.flag_or("scale_attn_by_inverse_layer_idx", false);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    if (!scaled) arch.layers[i].attention_scale = 1.0F;
    if (by_layer) arch.layers[i].attention_scale /= static_cast<float>(i + 1);
  }

  const std::uint64_t hidden = shape.hidden;
  const std::uint64_t inner = shape.intermediate;
  TensorMap& map = out.tensors;
  map.prefixes = {"transformer.", ""};
  map.embedding = matrix(hidden, {whole("wte", shape.vocab, hidden)});
  map.positions = matrix(hidden, {whole("wpe", shape.max_positions, hidden)});
  map.final_norm = norm("ln_f", hidden, Bias::kYes);
  if (!arch.tied) map.head = matrix(hidden, {whole("lm_head", shape.vocab, hidden)});
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("h.", i);
    LayerMap layer;
    layer.attention_norm = norm(prefix + "ln_1", hidden, Bias::kYes);
    layer.mlp_norm = norm(prefix + "ln_2", hidden, Bias::kYes);
    layer.qkv = matrix(hidden, {turned(prefix + "attn.c_attn", 3 * hidden, hidden, Bias::kYes)});
    layer.out = matrix(hidden, {turned(prefix + "attn.c_proj", hidden, hidden, Bias::kYes)});
    layer.mlp.up = matrix(hidden, {turned(prefix + "mlp.c_fc", inner, hidden, Bias::kYes)});
    layer.mlp.down = matrix(inner, {turned(prefix + "mlp.c_proj", hidden, inner, Bias::kYes)});
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
