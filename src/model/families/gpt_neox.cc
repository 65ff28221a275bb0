// gpt_neox (Pythia and others): q, k, v interleaved by head, partial rotary, parallel or sequential
// residual.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_gpt_neox(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_eps");
  arch.mlp = {.gate = GateKind::kNone, .activation = read_activation(config, "hidden_act", "gelu")};
  arch.tied = config.flag_or("tie_word_embeddings", false);
  arch.parallel = config.flag_or("use_parallel_residual", true);
  arch.parallel_mlp_norm = arch.parallel;
  RopeDefaults rope;
  rope.theta = config.number_or("rotary_emb_base", 1.0, 1e12, 10000.0);
  rope.partial = config.number_or("rotary_pct", 0.0, 1.0, 0.25);
  rope.takes_partial = true;
  rope.has_own_names = true;
  add_rope(arch, read_rope(config, arch, rope));
  const Bias bias = bias_if(config.flag_or("attention_bias", true));

  const std::uint64_t hidden = arch.hidden_size;
  TensorMap& map = out.tensors;
  map.prefixes = {"gpt_neox.", ""};
  map.embedding = matrix(hidden, {whole("embed_in", arch.vocab_size, hidden)});
  map.embedding.rows.front().otherwise = arch.tied ? "embed_out.weight" : "";
  map.final_norm = norm("final_layer_norm", hidden, Bias::kYes);
  if (!arch.tied) map.head = matrix(hidden, {whole("embed_out", arch.vocab_size, hidden)});
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer;
    layer.attention_norm = norm(prefix + "input_layernorm", hidden, Bias::kYes);
    layer.mlp_norm = norm(prefix + "post_attention_layernorm", hidden, Bias::kYes);
    layer.qkv =
        interleaved_qkv(arch, prefix + "attention.query_key_value", arch.attention.n_heads, bias);
    layer.out = matrix(arch.attention.q_width(),
                       {whole(prefix + "attention.dense", hidden, arch.attention.q_width(), bias)});
    layer.mlp = plain_mlp(arch,
                          prefix + "mlp.dense_h_to_4h",
                          prefix + "mlp.dense_4h_to_h",
                          arch.layers[i].intermediate,
                          Bias::kYes);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
