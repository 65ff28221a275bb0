// falcon, in its four published forms: 7B (one kv head, parallel), 40B and 180B (groups, two
// norms), 11B (groups, one norm), RW (ALiBi, sequential).

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_falcon(ConfigReader& config) {
  Architecture out;
  const bool grouped = config.flag_or("new_decoder_architecture", false);
  const bool one_kv_head = !grouped && config.flag_or("multi_query", true);
  const bool alibi = config.flag_or("alibi", false);
  Shape shape;
  shape.vocab = config.count("vocab_size", 1, kVocabMax);
  shape.hidden = config.count("hidden_size", 1, kHiddenMax);
  shape.n_layers = config.count_of({"num_hidden_layers", "n_layer"}, 1, kLayersMax);
  shape.n_heads = config.count_of({"num_attention_heads", "n_head"}, 1, kHeadsMax);
  shape.head_dim = divided(config, shape.hidden, shape.n_heads, "num_attention_heads");
  shape.n_kv_heads = shape.n_heads;
  if (grouped) shape.n_kv_heads = config.count_of({"num_kv_heads", "n_head_kv"}, 1, shape.n_heads);
  if (one_kv_head) shape.n_kv_heads = 1;
  shape.intermediate = config.count_or("ffn_hidden_size", 1, kIntermediateMax, 4 * shape.hidden);
  shape.max_positions = config.count_or("max_position_embeddings", 1, kPositionsMax, 2048);
  if (shape.n_heads % shape.n_kv_heads != 0)
    config.fail("num_kv_heads", "does not divide num_attention_heads");
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_epsilon");
  set_mlp(arch, GateKind::kNone, read_activation(config, "activation", "gelu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  arch.parallel = grouped || config.flag_or("parallel_attn", true);
  const bool two_norms = grouped && config.count_or("num_ln_in_parallel_attn", 1, 2, 2) == 2;
  arch.parallel_feed_forward_norm = arch.parallel && two_norms;
  if (alibi) {
    // (q.k + slope * position) / sqrt(head_dim), as the published weights were trained.
    set_alibi(arch, alibi_slopes(shape.n_heads, attention_of(arch).scale));
  } else {
    add_rope(arch, read_rope(config, rope_shape(arch), {}));
  }

  const Bias bias = bias_if(config.flag_or("bias", false));
  const std::uint64_t hidden = shape.hidden;
  out.tensors = transformer_outer(arch, "word_embeddings", norm("ln_f", hidden, Bias::kYes));
  TensorMap& map = out.tensors;
  const std::uint32_t n_groups = grouped || one_kv_head ? shape.n_kv_heads : shape.n_heads;
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("h.", i);
    LayerMap layer;
    layer.mixer_norm =
        norm(prefix + (two_norms ? "ln_attn" : "input_layernorm"), hidden, Bias::kYes);
    if (two_norms) layer.feed_forward_norm = norm(prefix + "ln_mlp", hidden, Bias::kYes);
    if (!arch.parallel)
      layer.feed_forward_norm = norm(prefix + "post_attention_layernorm", hidden, Bias::kYes);
    layer.attention().qkv =
        interleaved_qkv(arch, prefix + "self_attention.query_key_value", n_groups, bias);
    layer.attention().out =
        matrix(hidden, {whole(prefix + "self_attention.dense", hidden, hidden, bias)});
    layer.mlp() = plain_mlp(
        arch, prefix + "mlp.dense_h_to_4h", prefix + "mlp.dense_4h_to_h", shape.intermediate, bias);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
