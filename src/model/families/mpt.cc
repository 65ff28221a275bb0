// mpt: ALiBi, layer norms and matrices without biases, q, k and v clipped in some models.

#include <cmath>

#include "base/scalar_math.h"
#include "model/families/common.h"

namespace coxswain::model {
namespace {

// Slopes of the next power of two heads, odd ones first, as the library that trained these models has them.
std::vector<float> mpt_slopes(std::uint32_t n_heads, double bias_max) {
  std::uint32_t wide = 1;
  while (wide < n_heads) wide *= 2;
  const auto slope = [&](std::uint32_t i) {
    return static_cast<float>(base::exp2(-(i + 1.0) * bias_max / wide));
  };
  std::vector<float> out;
  if (wide != n_heads) {
    for (std::uint32_t i = 1; i < wide; i += 2) out.push_back(slope(i));
    for (std::uint32_t i = 0; i < wide; i += 2) out.push_back(slope(i));
  } else {
    for (std::uint32_t i = 0; i < wide; ++i) out.push_back(slope(i));
  }
  out.resize(n_heads);
  return out;
}

void read_attention(ConfigReader& config, ArchSpec& arch) {
  if (!config.has("attn_config")) {
    config.fail("attn_config", "is missing");
    return;
  }
  ConfigReader attention = config.object("attn_config");
  if (!attention.flag_or("alibi", false))
    attention.unsupported("alibi", "false (learned positions) is not supported");
  if (attention.flag_or("qk_ln", false)) attention.unsupported("qk_ln", "is not supported");
  if (attention.flag_or("prefix_lm", false)) attention.unsupported("prefix_lm", "is not supported");
  const std::uint32_t n_heads = attention_of(arch).n_heads;
  set_alibi(arch, mpt_slopes(n_heads, attention.number_or("alibi_bias_max", 1e-3, 1e3, 8.0)));
  set_clip(arch, attention.number_or("clip_qkv", 0.0, 1e6, 0.0));
  if (attention.has("softmax_scale")) {
    const auto scale = static_cast<float>(attention.number("softmax_scale", 1e-6, 1e6));
    for (LayerSpec& layer : arch.layers) layer.attention().scale = scale;
  }
  config.join(attention);
}

}  // namespace

Architecture read_mpt(ConfigReader& config) {
  Architecture out;
  Shape shape;
  shape.vocab = config.count("vocab_size", 1, kVocabMax);
  shape.hidden = config.count_of({"d_model", "hidden_size"}, 1, kHiddenMax);
  shape.n_layers = config.count_of({"n_layers", "num_hidden_layers"}, 1, kLayersMax);
  shape.n_heads = config.count_of({"n_heads", "num_attention_heads"}, 1, kHeadsMax);
  shape.n_kv_heads = shape.n_heads;
  shape.head_dim = divided(config, shape.hidden, shape.n_heads, "n_heads");
  // expansion_ratio is written in configs, but the reference implementation ignores it.
  shape.intermediate = 4 * shape.hidden;
  shape.max_positions = config.count_or("max_seq_len", 1, kPositionsMax, 2048);
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_epsilon");
  set_mlp(arch, GateKind::kNone, kernels::Activation::kGeluErf);
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  if (!config.flag_or("no_bias", true)) config.unsupported("no_bias", "false is not supported");
  if (config.has("logit_scale")) {
    const json::Value* scale = config.get("logit_scale");
    arch.head.scale = scale->is_string() && scale->as_string() == "inv_sqrt_d_model"
                          ? 1.0F / std::sqrt(static_cast<float>(shape.hidden))
                          : static_cast<float>(config.number("logit_scale", 1e-6, 1e6));
  }
  read_attention(config, arch);

  const std::uint64_t hidden = shape.hidden;
  out.tensors = transformer_outer(arch, "wte", norm("norm_f", hidden));
  TensorMap& map = out.tensors;
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("blocks.", i);
    LayerMap layer;
    layer.mixer_norm = norm(prefix + "norm_1", hidden);
    layer.feed_forward_norm = norm(prefix + "norm_2", hidden);
    layer.attention().qkv = matrix(hidden, {whole(prefix + "attn.Wqkv", 3 * hidden, hidden)});
    layer.attention().out = matrix(hidden, {whole(prefix + "attn.out_proj", hidden, hidden)});
    layer.mlp() = plain_mlp(
        arch, prefix + "ffn.up_proj", prefix + "ffn.down_proj", shape.intermediate, Bias::kNo);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
