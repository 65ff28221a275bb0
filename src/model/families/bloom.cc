// bloom: ALiBi, a norm behind the embedding, q, k, v interleaved by head.

#include "model/families/common.h"

namespace coxswain::model {

Architecture read_bloom(ConfigReader& config) {
  Architecture out;
  Shape shape;
  shape.vocab = config.count("vocab_size", 1, kVocabMax);
  shape.hidden = config.count_of({"n_embed", "hidden_size"}, 1, kHiddenMax);
  shape.n_layers = config.count_of({"n_layer", "num_hidden_layers"}, 1, kLayersMax);
  shape.n_heads = config.count_of({"num_attention_heads", "n_head"}, 1, kHeadsMax);
  shape.n_kv_heads = shape.n_heads;
  shape.head_dim = divided(config, shape.hidden, shape.n_heads, "num_attention_heads");
  shape.intermediate = 4 * shape.hidden;
  shape.max_positions = config.count_or("seq_length", 1, kPositionsMax, 2048);
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_epsilon");
  arch.embedding.norm = arch.norm;
  set_mlp(arch, GateKind::kNone, kernels::Activation::kGeluTanh);
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  arch.residual_from_norm = config.flag_or("apply_residual_connection_post_layernorm", false);
  set_alibi(arch, alibi_slopes(shape.n_heads, 1.0F));

  const std::uint64_t hidden = shape.hidden;
  out.tensors = transformer_outer(arch, "word_embeddings", norm("ln_f", hidden, Bias::kYes));
  TensorMap& map = out.tensors;
  map.embedding.norm = norm("word_embeddings_layernorm", hidden, Bias::kYes);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("h.", i);
    LayerMap layer;
    layer.mixer_norm = norm(prefix + "input_layernorm", hidden, Bias::kYes);
    layer.feed_forward_norm = norm(prefix + "post_attention_layernorm", hidden, Bias::kYes);
    layer.attention().qkv =
        interleaved_qkv(arch, prefix + "self_attention.query_key_value", shape.n_heads, Bias::kYes);
    layer.attention().out =
        matrix(hidden, {whole(prefix + "self_attention.dense", hidden, hidden, Bias::kYes)});
    layer.mlp() = plain_mlp(arch,
                            prefix + "mlp.dense_h_to_4h",
                            prefix + "mlp.dense_4h_to_h",
                            shape.intermediate,
                            Bias::kYes);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
