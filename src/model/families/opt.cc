// opt: learned positions that begin at row 2; the 350M model has its norms behind the residual and
// a narrower embedding.

#include "model/families/common.h"

namespace coxswain::model {
namespace {

constexpr std::uint32_t kPositionOffset = 2;

}  // namespace

Architecture read_opt(ConfigReader& config) {
  Architecture out;
  Shape shape;
  shape.vocab = config.count("vocab_size", 1, kVocabMax);
  shape.hidden = config.count("hidden_size", 1, kHiddenMax);
  shape.n_layers = config.count("num_hidden_layers", 1, kLayersMax);
  shape.n_heads = config.count("num_attention_heads", 1, kHeadsMax);
  shape.n_kv_heads = shape.n_heads;
  shape.head_dim = divided(config, shape.hidden, shape.n_heads, "num_attention_heads");
  shape.intermediate = config.count("ffn_dim", 1, kIntermediateMax);
  shape.max_positions = config.count("max_position_embeddings", 1, kPositionsMax);
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = {NormKind::kLayer, 1e-5F, 0.0F};
  set_mlp(arch, GateKind::kNone, read_activation(config, "activation_function", "relu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  arch.embedding.n_positions = shape.max_positions + kPositionOffset;
  arch.embedding.position_offset = kPositionOffset;
  const bool norm_first = config.flag_or("do_layer_norm_before", true);
  if (!norm_first) arch.placement = NormPlacement::kAfterResidual;
  arch.head.norm = norm_first && !config.flag_or("_remove_final_layer_norm", false);
  const std::uint32_t narrow = config.count_or("word_embed_proj_dim", 1, kHiddenMax, shape.hidden);
  if (narrow != shape.hidden) arch.embedding.width = narrow;
  const bool scaled_norms = config.flag_or("layer_norm_elementwise_affine", true);

  const Bias bias = bias_if(config.flag_or("enable_bias", true));
  const std::uint64_t hidden = shape.hidden;
  TensorMap& map = out.tensors;
  map.prefixes = {"model.decoder.", "decoder.", ""};
  map.embedding.table = matrix(narrow, {whole("embed_tokens", shape.vocab, narrow)});
  map.embedding.positions =
      matrix(hidden, {whole("embed_positions", arch.embedding.n_positions, hidden)});
  if (narrow != shape.hidden) {
    map.embedding.projection = matrix(narrow, {whole("project_in", hidden, narrow)});
    map.head.projection = matrix(hidden, {whole("project_out", narrow, hidden)});
  }
  const auto norm_named = [&](const std::string& name) {
    return scaled_norms ? norm(name, hidden, Bias::kYes) : NormMap{};
  };
  if (arch.head.norm) map.head.norm = norm_named("final_layer_norm");
  if (!arch.head.tied) map.head.matrix = matrix(narrow, {whole("lm_head", shape.vocab, narrow)});
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer;
    layer.mixer_norm = norm_named(prefix + "self_attn_layer_norm");
    layer.feed_forward_norm = norm_named(prefix + "final_layer_norm");
    layer.attention().qkv = matrix(hidden,
                                   {whole(prefix + "self_attn.q_proj", hidden, hidden, bias),
                                    whole(prefix + "self_attn.k_proj", hidden, hidden, bias),
                                    whole(prefix + "self_attn.v_proj", hidden, hidden, bias)});
    layer.attention().out =
        matrix(hidden, {whole(prefix + "self_attn.out_proj", hidden, hidden, bias)});
    layer.mlp() = plain_mlp(arch, prefix + "fc1", prefix + "fc2", shape.intermediate, bias);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
