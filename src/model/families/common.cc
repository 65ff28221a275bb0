#include "model/families/common.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/scalar_math.h"

namespace coxswain::model {

using kernels::Activation;

std::uint32_t divided(ConfigReader& config,
                      std::uint32_t hidden,
                      std::uint32_t n_heads,
                      std::string_view field) {
  if (n_heads == 0 || hidden % n_heads != 0) {
    config.fail(field,
                "is " + std::to_string(n_heads) + " and does not divide the hidden size " +
                    std::to_string(hidden));
    return 2;
  }
  return hidden / n_heads;
}

ArchSpec make_arch(const Shape& shape) {
  ArchSpec arch;
  arch.vocab_size = shape.vocab;
  arch.hidden_size = shape.hidden;
  arch.max_positions = shape.max_positions;
  LayerSpec layer;
  AttentionSpec& attention = layer.attention();
  attention.n_heads = shape.n_heads;
  attention.n_kv_heads = shape.n_kv_heads;
  attention.head_dim = shape.head_dim;
  attention.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  layer.mlp().intermediate = shape.intermediate;
  arch.layers.assign(shape.n_layers, layer);
  return arch;
}

ArchSpec read_standard_shape(ConfigReader& config, const ShapeDefaults& defaults) {
  Shape shape;
  shape.vocab = config.count("vocab_size", 1, kVocabMax);
  shape.hidden = config.count("hidden_size", 1, kHiddenMax);
  shape.n_layers = config.count("num_hidden_layers", 1, kLayersMax);
  shape.n_heads = config.count("num_attention_heads", 1, kHeadsMax);
  const bool own_kv_heads = defaults.n_kv_heads != 0 && !config.says_null("num_key_value_heads");
  shape.n_kv_heads = config.count_or(
      "num_key_value_heads", 1, kHeadsMax, own_kv_heads ? defaults.n_kv_heads : shape.n_heads);
  if (config.has("head_dim")) {
    shape.head_dim = config.count("head_dim", 1, kHeadDimMax);
  } else if (defaults.head_dim != 0 && !config.says_null("head_dim")) {
    shape.head_dim = defaults.head_dim;
  } else {
    shape.head_dim = divided(config, shape.hidden, shape.n_heads, "num_attention_heads");
  }
  shape.intermediate = config.count("intermediate_size", 1, kIntermediateMax);
  shape.max_positions = config.count("max_position_embeddings", 1, kPositionsMax);
  if (shape.n_heads % shape.n_kv_heads != 0) {
    config.fail("num_key_value_heads",
                "is " + std::to_string(shape.n_kv_heads) +
                    " and does not divide num_attention_heads " + std::to_string(shape.n_heads));
  }
  return make_arch(shape);
}

Shape read_gpt2_shape(ConfigReader& config) {
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
  return shape;
}

NormSpec read_rms_norm(ConfigReader& config, double fallback) {
  return {.kind = NormKind::kRms,
          .epsilon = static_cast<float>(config.number_or("rms_norm_eps", 0.0, 1.0, fallback))};
}

NormSpec read_layer_norm(ConfigReader& config, std::string_view field) {
  return {.kind = NormKind::kLayer,
          .epsilon = static_cast<float>(config.number_or(field, 0.0, 1.0, 1e-5))};
}

Activation read_activation(ConfigReader& config,
                           std::string_view field,
                           std::string_view fallback) {
  constexpr std::array<std::pair<std::string_view, Activation>, 13> kNames{{
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
      {"gelu", Activation::kGeluErf},
      {"gelu_python", Activation::kGeluErf},
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_python_tanh", Activation::kGeluTanh},
      {"gelu_accurate", Activation::kGeluTanh},
      {"quick_gelu", Activation::kGeluQuick},
      {"relu", Activation::kRelu},
      {"relu2", Activation::kReluSquared},
      {"relu_squared", Activation::kReluSquared},
  }};
  const std::string name = config.text_or(field, fallback);
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
  }
  config.unsupported(field, "\"" + name + "\" is not supported");
  return Activation::kSilu;
}

std::vector<float> alibi_slopes(std::uint32_t n_heads, float scale) {
  std::uint32_t narrow = 1;
  while (narrow * 2 <= n_heads) narrow *= 2;
  std::vector<float> out;
  for (std::uint32_t i = 1; i <= narrow; ++i)
    out.push_back(scale * static_cast<float>(base::exp2(-8.0 * i / narrow)));
  for (std::uint32_t i = 1; out.size() < n_heads; i += 2) {
    out.push_back(scale * static_cast<float>(base::exp2(-4.0 * i / narrow)));
  }
  return out;
}

std::uint32_t experts_max(const ArchSpec& arch) {
  return std::min(kExpertsMax, kExpertsOfModelMax / std::max(arch.n_layers(), 1U));
}

void add_rope(ArchSpec& arch, const RopeSpec& rope) {
  arch.ropes.push_back(rope);
  for (LayerSpec& layer : arch.layers)
    layer.attention().rope = static_cast<std::int32_t>(arch.ropes.size() - 1);
}

void set_mlp(ArchSpec& arch, GateKind gate, Activation activation) {
  for (LayerSpec& layer : arch.layers) {
    layer.mlp().gate = gate;
    layer.mlp().activation = activation;
  }
}

void set_activation(ArchSpec& arch, Activation activation) {
  for (LayerSpec& layer : arch.layers) layer.mlp().activation = activation;
}

void set_qk_norm(ArchSpec& arch, QkNorm kind) {
  for (LayerSpec& layer : arch.layers) {
    layer.attention().qk_norm = kind;
    layer.attention().qk_norm_spec = arch.norm;
  }
}

void set_alibi(ArchSpec& arch, const std::vector<float>& slopes) {
  for (LayerSpec& layer : arch.layers) layer.attention().alibi_slopes = slopes;
}

void set_clip(ArchSpec& arch, double limit) {
  for (LayerSpec& layer : arch.layers) layer.attention().clip_qkv = static_cast<float>(limit);
}

void set_experts(LayerSpec& layer, ExpertsSpec experts, std::uint32_t intermediate) {
  experts.expert = layer.mlp();
  experts.expert.intermediate = intermediate;
  layer.feed_forward = experts;
}

void set_window(ArchSpec& arch, std::uint32_t window) {
  for (LayerSpec& layer : arch.layers) layer.attention().window = window;
}

std::uint32_t read_window(ConfigReader& config, std::uint32_t fallback) {
  return config.count_or(
      "sliding_window", 1, kPositionsMax, config.says_null("sliding_window") ? 0 : fallback);
}

bool read_layer_types(ConfigReader& config, ArchSpec& arch, std::uint32_t window) {
  if (!config.has("layer_types")) return false;
  const auto types = config.texts_or_empty("layer_types", kLayersMax);
  if (types.size() != arch.layers.size()) {
    config.fail("layer_types",
                "has " + std::to_string(types.size()) + " entries for " +
                    std::to_string(arch.layers.size()) + " layers");
    return true;
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "sliding_attention") {
      if (window == 0) config.fail("sliding_window", "is missing, but layer_types asks for it");
      arch.layers[i].attention().window = window;
    } else if (types[i] == "full_attention") {
      arch.layers[i].attention().window = 0;
    } else {
      config.unsupported("layer_types", "holds \"" + types[i] + "\", which is not supported");
    }
  }
  return true;
}

Rows whole(const std::string& name, std::uint64_t n, std::uint64_t k, Bias bias) {
  return part(name, n, k, 0, n, bias);
}

Rows part(const std::string& name,
          std::uint64_t n,
          std::uint64_t k,
          std::uint64_t first,
          std::uint64_t count,
          Bias bias) {
  Rows out;
  out.tensor = name + ".weight";
  out.shape = {n, k};
  out.first = first;
  out.count = count;
  if (bias == Bias::kYes) out.bias = name + ".bias";
  return out;
}

Rows transposed(const std::string& name, std::uint64_t n, std::uint64_t k, Bias bias) {
  Rows out = whole(name, n, k, bias);
  out.shape = {k, n};
  out.transposed = true;
  return out;
}

MatrixMap matrix(std::uint64_t k, std::vector<Rows> rows) {
  MatrixMap out;
  out.rows = std::move(rows);
  out.k = k;
  return out;
}

NormMap norm(const std::string& name, std::uint64_t size, Bias bias) {
  NormMap out;
  out.weight = {{name + ".weight"}, size};
  if (bias == Bias::kYes) out.bias = {{name + ".bias"}, size};
  return out;
}

LlamaNames read_llama_names(ConfigReader& config, bool fallback) {
  LlamaNames out;
  out.qkv_bias = bias_if(config.flag_or("attention_bias", fallback));
  out.out_bias = out.qkv_bias;
  return out;
}

TensorMap llama_outer(const ArchSpec& arch, const LlamaNames& names) {
  TensorMap out;
  out.prefixes = {"model.", ""};
  out.embedding.table =
      matrix(arch.hidden_size, {whole("embed_tokens", arch.vocab_size, arch.hidden_size)});
  out.head.norm = norm(names.final_norm, arch.hidden_size, names.norm_bias);
  if (!arch.head.tied)
    out.head.matrix =
        matrix(arch.hidden_size, {whole("lm_head", arch.vocab_size, arch.hidden_size)});
  return out;
}

TensorMap transformer_outer(const ArchSpec& arch,
                            const std::string& embedding,
                            NormMap final_norm) {
  TensorMap out;
  out.prefixes = {"transformer.", ""};
  out.embedding.table =
      matrix(arch.hidden_size, {whole(embedding, arch.vocab_size, arch.hidden_size)});
  out.head.norm = std::move(final_norm);
  if (!arch.head.tied)
    out.head.matrix =
        matrix(arch.hidden_size, {whole("lm_head", arch.vocab_size, arch.hidden_size)});
  return out;
}

void add_head_bias(const ArchSpec& arch, TensorMap& map) {
  // A tied head has the bias too; look-ups of the embedding do not read it.
  (arch.head.tied ? map.embedding.table : map.head.matrix).rows.front().bias = "lm_head.bias";
}

LayerMap llama_attention(const ArchSpec& arch, const std::string& prefix, const LlamaNames& names) {
  const AttentionSpec& a = attention_of(arch);
  const std::uint64_t hidden = arch.hidden_size;
  LayerMap out;
  if (arch.norm_before) {
    out.mixer_norm = norm(prefix + names.attention_norm, hidden, names.norm_bias);
    if (!arch.parallel || arch.parallel_feed_forward_norm)
      out.feed_forward_norm = norm(prefix + names.mlp_norm, hidden, names.norm_bias);
  }
  out.attention().qkv =
      matrix(hidden,
             {whole(prefix + "self_attn.q_proj", a.q_width(), hidden, names.qkv_bias),
              whole(prefix + "self_attn.k_proj", a.kv_width(), hidden, names.qkv_bias),
              whole(prefix + "self_attn.v_proj", a.kv_width(), hidden, names.qkv_bias)});
  out.attention().out =
      matrix(a.q_width(), {whole(prefix + names.out, hidden, a.q_width(), names.out_bias)});
  const std::uint64_t q_scale = a.qk_norm == QkNorm::kPerHead ? a.head_dim : a.q_width();
  const std::uint64_t k_scale = a.qk_norm == QkNorm::kPerHead ? a.head_dim : a.kv_width();
  if (a.qk_norm != QkNorm::kNone) {
    out.attention().q_norm = norm(prefix + "self_attn.q_norm", q_scale);
    out.attention().k_norm = norm(prefix + "self_attn.k_norm", k_scale);
  }
  return out;
}

MlpMap gated_mlp(const ArchSpec& arch,
                 const std::string& prefix,
                 std::uint32_t intermediate,
                 Bias bias) {
  const std::uint64_t hidden = arch.hidden_size;
  MlpMap out;
  out.up = matrix(hidden,
                  {whole(prefix + "gate_proj", intermediate, hidden, bias),
                   whole(prefix + "up_proj", intermediate, hidden, bias)});
  out.down = matrix(intermediate, {whole(prefix + "down_proj", hidden, intermediate, bias)});
  return out;
}

MlpMap plain_mlp(const ArchSpec& arch,
                 const std::string& up,
                 const std::string& down,
                 std::uint32_t intermediate,
                 Bias bias) {
  MlpMap out;
  out.up = matrix(arch.hidden_size, {whole(up, intermediate, arch.hidden_size, bias)});
  out.down = matrix(intermediate, {whole(down, arch.hidden_size, intermediate, bias)});
  return out;
}

TensorMap llama_tensors(const ArchSpec& arch, const LlamaNames& names) {
  TensorMap out = llama_outer(arch, names);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer = llama_attention(arch, prefix, names);
    layer.mlp() =
        gated_mlp(arch, prefix + "mlp.", arch.layers[i].mlp().intermediate, names.mlp_bias);
    out.layers.push_back(std::move(layer));
  }
  return out;
}

MatrixMap interleaved_qkv(const ArchSpec& arch,
                          const std::string& name,
                          std::uint32_t n_groups,
                          Bias bias) {
  const AttentionSpec& a = attention_of(arch);
  const std::uint64_t n = a.qkv_width();
  const std::uint64_t head = a.head_dim;
  const std::uint64_t q_rows = a.n_heads / n_groups * head;
  const std::uint64_t kv_rows = a.n_kv_heads / n_groups * head;
  const std::uint64_t group = q_rows + 2 * kv_rows;
  MatrixMap out;
  out.k = arch.hidden_size;
  const auto add = [&](std::uint64_t offset, std::uint64_t count) {
    for (std::uint64_t g = 0; g < n_groups; ++g) {
      out.rows.push_back(part(name, n, arch.hidden_size, g * group + offset, count, bias));
    }
  };
  add(0, q_rows);
  add(q_rows, kv_rows);
  add(q_rows + kv_rows, kv_rows);
  return out;
}

std::string layer_prefix(std::string_view list, std::uint32_t layer) {
  return std::string(list) + std::to_string(layer) + ".";
}

}  // namespace coxswain::model
