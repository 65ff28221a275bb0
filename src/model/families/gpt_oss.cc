// gpt_oss: attention sinks, a window on every second layer, a mixture of experts with biases and a
// clamped SwiGLU.

#include <cmath>

#include "model/families/common.h"

namespace coxswain::model {
namespace {

// One tensor holds all experts as [expert, inputs, outputs].
Rows expert_rows(const std::string& name,
                 const ArchSpec& arch,
                 std::uint64_t n,
                 std::uint64_t k,
                 std::uint32_t expert) {
  Rows out;
  out.tensor = name;
  out.shape = {arch.moe.n_experts, k, n};
  out.count = n;
  out.transposed = true;
  out.index = expert;
  out.bias = name + "_bias";
  return out;
}

MlpMap expert_mlp(const ArchSpec& arch, const std::string& prefix, std::uint32_t expert) {
  const std::uint64_t hidden = arch.hidden_size;
  const std::uint64_t inner = arch.moe.intermediate;
  // Outputs of gate and up take turns.
  Rows gate = expert_rows(prefix + "gate_up_proj", arch, 2 * inner, hidden, expert);
  gate.count = inner;
  gate.step = 2;
  Rows up = gate;
  up.first = 1;
  return {matrix(hidden, {gate, up}),
          matrix(inner, {expert_rows(prefix + "down_proj", arch, hidden, inner, expert)})};
}

// A config without any rope settings means the published stretch.
RopeSpec read_stretched_rope(ConfigReader& config, const ArchSpec& arch) {
  RopeDefaults defaults;
  defaults.theta = 150000.0;
  RopeSpec rope = read_rope(config, arch, defaults);
  if (config.has("rope_scaling") || config.has("rope_parameters")) return rope;
  rope.scaling = RopeScaling::kYarn;
  rope.original_max_positions = 4096;
  rope.factor = 32.0;
  rope.truncate = false;
  rope.attention_factor = 0.1 * std::log(rope.factor) + 1.0;
  return rope;
}

}  // namespace

Architecture read_gpt_oss(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config, {.n_kv_heads = 8, .head_dim = 64});
  ArchSpec& arch = out.arch;
  arch.norm = read_rms_norm(config, 1e-5);
  arch.tied = config.flag_or("tie_word_embeddings", false);
  arch.mlp.gate = GateKind::kClampedSwiglu;
  arch.mlp.swiglu_limit = static_cast<float>(config.number_or("swiglu_limit", 1e-3, 1e6, 7.0));
  arch.mlp.swiglu_alpha = static_cast<float>(config.number_or("swiglu_alpha", 1e-3, 1e3, 1.702));
  add_rope(arch, read_stretched_rope(config, arch));
  const std::uint32_t window = read_window(config, 128);
  if (!read_layer_types(config, arch, window)) {
    for (std::uint32_t i = 0; i < arch.n_layers(); i += 2) arch.layers[i].window = window;
  }
  arch.moe.n_experts = config.count_of({"num_local_experts", "num_experts"}, 1, experts_max(arch));
  arch.moe.n_used =
      config.count_of({"num_experts_per_tok", "experts_per_token"}, 1, arch.moe.n_experts);
  arch.moe.intermediate = arch.layers.front().intermediate;
  arch.moe.routing = Routing::kTopThenSoftmax;
  const LlamaNames names = read_llama_names(config, true);
  out.tensors = llama_outer(arch, names);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    arch.layers[i].moe = true;
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer = llama_attention(arch, prefix, names);
    layer.sinks = {{prefix + "self_attn.sinks"}, arch.attention.n_heads};
    layer.router =
        matrix(arch.hidden_size,
               {whole(prefix + "mlp.router", arch.moe.n_experts, arch.hidden_size, Bias::kYes)});
    for (std::uint32_t e = 0; e < arch.moe.n_experts; ++e)
      layer.experts.push_back(expert_mlp(arch, prefix + "mlp.experts.", e));
    out.tensors.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
