// gpt_neox (Pythia and others): q, k, v interleaved by head, partial rotary, parallel or sequential residual.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_gpt_neox(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_eps");
  set_mlp(arch, GateKind::kNone, read_activation(config, "hidden_act", "gelu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  arch.parallel = config.flag_or("use_parallel_residual", true);
  arch.parallel_feed_forward_norm = arch.parallel;
  RopeDefaults rope;
  rope.theta = config.number_or("rotary_emb_base", 1.0, 1e12, 10000.0);
  rope.partial = config.number_or("rotary_pct", 0.0, 1.0, 0.25);
  rope.takes_partial = true;
  rope.has_own_names = true;
  add_rope(arch, read_rope(config, rope_shape(arch), rope));
  const Bias bias = bias_if(config.flag_or("attention_bias", true));

  const std::uint64_t hidden = arch.hidden_size;
  TensorMap& map = out.tensors;
  map.prefixes = {"gpt_neox.", ""};
  map.embedding.table = matrix(hidden, {whole("embed_in", arch.vocab_size, hidden)});
  map.embedding.table.rows.front().otherwise = arch.head.tied ? "embed_out.weight" : "";
  map.head.norm = norm("final_layer_norm", hidden, Bias::kYes);
  if (!arch.head.tied)
    map.head.matrix = matrix(hidden, {whole("embed_out", arch.vocab_size, hidden)});
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer;
    layer.mixer_norm = norm(prefix + "input_layernorm", hidden, Bias::kYes);
    layer.feed_forward_norm = norm(prefix + "post_attention_layernorm", hidden, Bias::kYes);
    layer.attention().qkv = interleaved_qkv(
        arch, prefix + "attention.query_key_value", attention_of(arch).n_heads, bias);
    layer.attention().out =
        matrix(attention_of(arch).q_width(),
               {whole(prefix + "attention.dense", hidden, attention_of(arch).q_width(), bias)});
    layer.mlp() = plain_mlp(arch,
                            prefix + "mlp.dense_h_to_4h",
                            prefix + "mlp.dense_4h_to_h",
                            arch.layers[i].mlp().intermediate,
                            Bias::kYes);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
