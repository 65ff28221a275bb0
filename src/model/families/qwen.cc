// qwen2 (biases on q, k, v), qwen3 (norms on q and k) and their mixtures of experts.

#include <algorithm>

#include "model/families/common.h"

namespace coxswain::model {
namespace {

std::uint32_t read_used_window(ConfigReader& config) {
  return config.flag_or("use_sliding_window", false) ? read_window(config, 4096) : 0;
}

std::uint32_t read_window_layers(ConfigReader& config) {
  return config.count_or("max_window_layers", 0, kLayersMax, 28);
}

// A window on the layers from max_window_layers on; layer_types wins where it is given.
void read_windows(ConfigReader& config, ArchSpec& arch) {
  const std::uint32_t window = read_used_window(config);
  if (read_layer_types(config, arch, window)) return;
  for (std::uint32_t i = read_window_layers(config); i < arch.n_layers(); ++i)
    arch.layers[i].window = window;
}

// qwen2_moe: on every second layer of those before max_window_layers.
void read_alternating_windows(ConfigReader& config, ArchSpec& arch) {
  const std::uint32_t window = read_used_window(config);
  if (read_layer_types(config, arch, window)) return;
  const std::uint32_t end = std::min(read_window_layers(config), arch.n_layers());
  for (std::uint32_t i = 0; i < end; i += 2) arch.layers[i].window = window;
}

ArchSpec read_shared(ConfigReader& config, const ShapeDefaults& defaults) {
  ArchSpec arch = read_standard_shape(config, defaults);
  arch.norm = read_rms_norm(config, 1e-6);
  arch.mlp.activation = read_activation(config, "hidden_act", "silu");
  arch.tied = config.flag_or("tie_word_embeddings", false);
  add_rope(arch, read_rope(config, arch, {}));
  return arch;
}

void add_qk_norm(ArchSpec& arch) {
  arch.attention.qk_norm = QkNorm::kPerHead;
  arch.attention.qk_norm_spec = arch.norm;
}

void read_experts(ConfigReader& config, ArchSpec& arch) {
  arch.moe.n_experts = config.count_of({"num_experts", "num_local_experts"}, 1, experts_max(arch));
  arch.moe.n_used = config.count("num_experts_per_tok", 1, arch.moe.n_experts);
  arch.moe.intermediate = config.count("moe_intermediate_size", 1, kIntermediateMax);
  arch.moe.normalise = config.flag_or("norm_topk_prob", false);
  const std::uint32_t step = config.count_or("decoder_sparse_step", 1, kLayersMax, 1);
  const auto dense = config.counts_or_empty("mlp_only_layers", kLayersMax, kLayersMax);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    arch.layers[i].moe =
        (i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end();
  }
}

TensorMap moe_tensors(const ArchSpec& arch, const LlamaNames& names) {
  TensorMap out = llama_outer(arch, names);
  const std::uint64_t hidden = arch.hidden_size;
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer = llama_attention(arch, prefix, names);
    if (!arch.layers[i].moe) {
      layer.mlp = gated_mlp(arch, prefix + "mlp.", arch.layers[i].intermediate);
    } else {
      layer.router = matrix(hidden, {whole(prefix + "mlp.gate", arch.moe.n_experts, hidden)});
      for (std::uint32_t e = 0; e < arch.moe.n_experts; ++e) {
        layer.experts.push_back(
            gated_mlp(arch, layer_prefix(prefix + "mlp.experts.", e), arch.moe.intermediate));
      }
      if (arch.moe.shared_intermediate > 0) {
        layer.shared_expert =
            gated_mlp(arch, prefix + "mlp.shared_expert.", arch.moe.shared_intermediate);
        layer.shared_gate = matrix(hidden, {whole(prefix + "mlp.shared_expert_gate", 1, hidden)});
      }
    }
    out.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace

Architecture read_qwen2(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, {.n_kv_heads = 32});
  read_windows(config, out.arch);
  LlamaNames names;
  names.qkv_bias = Bias::kYes;
  out.tensors = llama_tensors(out.arch, names);
  return out;
}

Architecture read_qwen2_moe(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, {.n_kv_heads = 16});
  read_alternating_windows(config, out.arch);
  read_experts(config, out.arch);
  out.arch.moe.shared_intermediate =
      config.count("shared_expert_intermediate_size", 1, kIntermediateMax);
  out.arch.moe.shared_gate = true;
  LlamaNames names;
  names.qkv_bias = bias_if(config.flag_or("qkv_bias", true));
  out.tensors = moe_tensors(out.arch, names);
  return out;
}

Architecture read_qwen3(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, {.n_kv_heads = 32, .head_dim = 128});
  read_windows(config, out.arch);
  add_qk_norm(out.arch);
  out.tensors = llama_tensors(out.arch, read_llama_names(config, false));
  return out;
}

Architecture read_qwen3_moe(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, {.n_kv_heads = 4});
  set_window(out.arch, read_used_window(config));
  add_qk_norm(out.arch);
  read_experts(config, out.arch);
  out.tensors = moe_tensors(out.arch, read_llama_names(config, false));
  return out;
}

}  // namespace coxswain::model
