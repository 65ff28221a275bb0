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
    arch.layers[i].attention().window = window;
}

// qwen2_moe: on every second layer of those before max_window_layers.
void read_alternating_windows(ConfigReader& config, ArchSpec& arch) {
  const std::uint32_t window = read_used_window(config);
  if (read_layer_types(config, arch, window)) return;
  const std::uint32_t end = std::min(read_window_layers(config), arch.n_layers());
  for (std::uint32_t i = 0; i < end; i += 2) arch.layers[i].attention().window = window;
}

ArchSpec read_shared(ConfigReader& config, const ShapeDefaults& defaults) {
  ArchSpec arch = read_standard_shape(config, defaults);
  arch.norm = read_rms_norm(config, 1e-6);
  set_activation(arch, read_activation(config, "hidden_act", "silu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  add_rope(arch, read_rope(config, rope_shape(arch), {}));
  return arch;
}

void add_qk_norm(ArchSpec& arch) {
  set_qk_norm(arch, QkNorm::kPerHead);
}

// Experts on every decoder_sparse_step-th layer but those of mlp_only_layers.
void read_experts(ConfigReader& config, ArchSpec& arch, bool shared) {
  ExpertsSpec experts;
  experts.n_experts = config.count_of({"num_experts", "num_local_experts"}, 1, experts_max(arch));
  experts.n_used = config.count("num_experts_per_tok", 1, experts.n_experts);
  experts.normalize = config.flag_or("norm_topk_prob", false);
  const std::uint32_t intermediate = config.count("moe_intermediate_size", 1, kIntermediateMax);
  if (shared) {
    experts.shared = arch.layers.front().mlp();
    experts.shared->intermediate =
        config.count("shared_expert_intermediate_size", 1, kIntermediateMax);
    experts.shared_gate = true;
  }
  const std::uint32_t step = config.count_or("decoder_sparse_step", 1, kLayersMax, 1);
  const auto dense = config.counts_or_empty("mlp_only_layers", kLayersMax, kLayersMax);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const bool is_dense = std::find(dense.begin(), dense.end(), i) != dense.end();
    if ((i + 1) % step == 0 && !is_dense) set_experts(arch.layers[i], experts, intermediate);
  }
}

ExpertsMap expert_tensors(const ArchSpec& arch,
                          const ExpertsSpec& experts,
                          const std::string& prefix) {
  const std::uint64_t hidden = arch.hidden_size;
  ExpertsMap out;
  out.router = matrix(hidden, {whole(prefix + "gate", experts.n_experts, hidden)});
  for (std::uint32_t e = 0; e < experts.n_experts; ++e) {
    out.experts.push_back(
        gated_mlp(arch, layer_prefix(prefix + "experts.", e), experts.expert.intermediate));
  }
  if (experts.shared) {
    out.shared = gated_mlp(arch, prefix + "shared_expert.", experts.shared->intermediate);
    out.shared_gate = matrix(hidden, {whole(prefix + "shared_expert_gate", 1, hidden)});
  }
  return out;
}

TensorMap moe_tensors(const ArchSpec& arch, const LlamaNames& names) {
  TensorMap out = llama_outer(arch, names);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const LayerSpec& spec = arch.layers[i];
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer = llama_attention(arch, prefix, names);
    if (spec.has_experts()) {
      layer.feed_forward = expert_tensors(arch, spec.experts(), prefix + "mlp.");
    } else {
      layer.feed_forward = gated_mlp(arch, prefix + "mlp.", spec.mlp().intermediate);
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
  read_experts(config, out.arch, true);
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
  read_experts(config, out.arch, false);
  out.tensors = moe_tensors(out.arch, read_llama_names(config, false));
  return out;
}

}  // namespace coxswain::model
