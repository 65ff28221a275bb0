// dbrx: layer norms without bias, q, k and v clipped, a mixture of experts stored as three tall tensors.

#include "model/families/common.h"

namespace coxswain::model {
namespace {

// Weights are divided by their p-norm; null means not at all, absent means p = 1.
void read_normalization(ConfigReader& config, ConfigReader& ffn, ExpertsSpec& experts) {
  const json::Value* raw = config.get("ffn_config")->find("moe_normalize_expert_weights");
  experts.normalize = raw == nullptr || !raw->is_null();
  if (experts.normalize && ffn.number_or("moe_normalize_expert_weights", 0.0, 1e6, 1.0) != 1.0) {
    ffn.unsupported("moe_normalize_expert_weights", "other than 1 or null is not supported");
  }
}

Rows expert_rows(const std::string& tensor, const ArchSpec& arch, std::uint32_t expert) {
  const ExpertsSpec& experts = arch.layers.front().experts();
  const std::uint64_t inner = experts.expert.intermediate;
  Rows out;
  out.tensor = tensor;
  out.shape = {experts.n_experts * inner, arch.hidden_size};
  out.first = expert * inner;
  out.count = inner;
  return out;
}

// Stored as [inputs, outputs] for each expert.
Rows transposed_expert(const std::string& tensor, const ArchSpec& arch, std::uint32_t expert) {
  Rows out = expert_rows(tensor, arch, expert);
  out.first = 0;
  out.count = arch.hidden_size;
  out.transposed = true;
  out.index = expert;
  return out;
}

}  // namespace

Architecture read_dbrx(ConfigReader& config) {
  Architecture out;
  ConfigReader attention = config.object("attn_config");
  ConfigReader ffn = config.object("ffn_config");
  if (!config.status().ok()) return out;
  Shape shape;
  shape.vocab = config.count("vocab_size", 1, kVocabMax);
  shape.hidden = config.count_of({"d_model", "hidden_size"}, 1, kHiddenMax);
  shape.n_layers = config.count_of({"n_layers", "num_hidden_layers"}, 1, kLayersMax);
  shape.n_heads = config.count_of({"n_heads", "num_attention_heads"}, 1, kHeadsMax);
  shape.n_kv_heads = attention.count_or("kv_n_heads", 1, shape.n_heads, 1);
  shape.head_dim = divided(config, shape.hidden, shape.n_heads, "n_heads");
  shape.intermediate = ffn.count_or("ffn_hidden_size", 1, kIntermediateMax, 3584);
  shape.max_positions = config.count_or("max_seq_len", 1, kPositionsMax, 2048);
  if (shape.n_heads % shape.n_kv_heads != 0)
    attention.fail("kv_n_heads", "does not divide n_heads");
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = {NormKind::kLayer, 1e-5F, 0.0F};
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  set_clip(arch, attention.number_or("clip_qkv", 0.0, 1e6, 0.0));
  RopeDefaults rope;
  rope.theta = attention.number_or("rope_theta", 1.0, 1e12, 10000.0);
  add_rope(arch, read_rope(config, rope_shape(arch), rope));
  if (ffn.has("ffn_act_fn")) {
    ConfigReader activation = ffn.object("ffn_act_fn");
    set_activation(arch, read_activation(activation, "name", "silu"));
    ffn.join(activation);
  }
  ExpertsSpec experts;
  experts.n_experts = ffn.count_or("moe_num_experts", 1, experts_max(arch), 4);
  experts.n_used = ffn.count_or("moe_top_k", 1, experts.n_experts, 1);
  read_normalization(config, ffn, experts);
  for (LayerSpec& layer : arch.layers) set_experts(layer, experts, shape.intermediate);
  config.join(attention);
  config.join(ffn);

  const std::uint64_t hidden = shape.hidden;
  out.tensors = transformer_outer(arch, "wte", norm("norm_f", hidden));
  TensorMap& map = out.tensors;
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("blocks.", i);
    LayerMap layer;
    layer.mixer_norm = norm(prefix + "norm_attn_norm.norm_1", hidden);
    layer.feed_forward_norm = norm(prefix + "norm_attn_norm.norm_2", hidden);
    layer.attention().qkv = matrix(
        hidden,
        {whole(prefix + "norm_attn_norm.attn.Wqkv", attention_of(arch).qkv_width(), hidden)});
    layer.attention().out =
        matrix(hidden, {whole(prefix + "norm_attn_norm.attn.out_proj", hidden, hidden)});
    ExpertsMap expert_tensors;
    expert_tensors.router =
        matrix(hidden, {whole(prefix + "ffn.router.layer", experts.n_experts, hidden)});
    for (std::uint32_t e = 0; e < experts.n_experts; ++e) {
      const std::string stored = prefix + "ffn.experts.mlp.";
      expert_tensors.experts.push_back(
          {matrix(hidden,
                  {expert_rows(stored + "w1", arch, e), expert_rows(stored + "v1", arch, e)}),
           matrix(shape.intermediate, {transposed_expert(stored + "w2", arch, e)})});
    }
    layer.feed_forward = std::move(expert_tensors);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
