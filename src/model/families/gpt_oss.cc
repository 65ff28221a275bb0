// gpt_oss: attention sinks, a window on every second layer, a mixture of experts with biases and a clamped SwiGLU.

#include "base/scalar_math.h"
#include "model/families/common.h"

namespace coxswain::model {
namespace {

// One tensor holds all experts as [expert, inputs, outputs].
Rows expert_rows(const std::string& name,
                 const ExpertsSpec& experts,
                 std::uint64_t n,
                 std::uint64_t k,
                 std::uint32_t expert) {
  Rows out;
  out.tensor = name;
  out.shape = {experts.n_experts, k, n};
  out.count = n;
  out.transposed = true;
  out.index = expert;
  out.bias = name + "_bias";
  return out;
}

MlpMap expert_mlp(const ExpertsSpec& experts,
                  std::uint64_t hidden,
                  const std::string& prefix,
                  std::uint32_t expert) {
  const std::uint64_t inner = experts.expert.intermediate;
  // Outputs of gate and up take turns.
  Rows gate = expert_rows(prefix + "gate_up_proj", experts, 2 * inner, hidden, expert);
  gate.count = inner;
  gate.step = 2;
  Rows up = gate;
  up.first = 1;
  return {matrix(hidden, {gate, up}),
          matrix(inner, {expert_rows(prefix + "down_proj", experts, hidden, inner, expert)})};
}

// A config without any rope settings means the published stretch.
RopeSpec read_stretched_rope(ConfigReader& config, const ArchSpec& arch) {
  RopeDefaults defaults;
  defaults.theta = 150000.0;
  RopeSpec rope = read_rope(config, rope_shape(arch), defaults);
  if (config.has("rope_scaling") || config.has("rope_parameters")) return rope;
  rope.scaling = RopeScaling::kYarn;
  rope.original_max_positions = 4096;
  rope.factor = 32.0;
  rope.truncate = false;
  rope.attention_factor = 0.1 * base::log(rope.factor) + 1.0;
  return rope;
}

}  // namespace

Architecture read_gpt_oss(ConfigReader& config) {
  Architecture out;
  out.arch = read_standard_shape(config, {.n_kv_heads = 8, .head_dim = 64});
  ArchSpec& arch = out.arch;
  arch.norm = read_rms_norm(config, 1e-5);
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  add_rope(arch, read_stretched_rope(config, arch));
  const std::uint32_t window = read_window(config, 128);
  if (!read_layer_types(config, arch, window)) {
    for (std::uint32_t i = 0; i < arch.n_layers(); i += 2)
      arch.layers[i].attention().window = window;
  }
  MlpSpec expert;
  expert.gate = GateKind::kClampedSwiglu;
  expert.swiglu_limit = static_cast<float>(config.number_or("swiglu_limit", 1e-3, 1e6, 7.0));
  expert.swiglu_alpha = static_cast<float>(config.number_or("swiglu_alpha", 1e-3, 1e3, 1.702));
  expert.intermediate = arch.layers.front().mlp().intermediate;
  ExpertsSpec experts;
  experts.n_experts = config.count_of({"num_local_experts", "num_experts"}, 1, experts_max(arch));
  experts.n_used =
      config.count_of({"num_experts_per_tok", "experts_per_token"}, 1, experts.n_experts);
  experts.routing = Routing::kTopThenSoftmax;
  experts.expert = expert;
  const LlamaNames names = read_llama_names(config, true);
  out.tensors = llama_outer(arch, names);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    arch.layers[i].feed_forward = experts;
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer = llama_attention(arch, prefix, names);
    layer.attention().sinks = {{prefix + "self_attn.sinks"}, attention_of(arch).n_heads};
    ExpertsMap& map = layer.feed_forward.emplace<ExpertsMap>();
    map.router =
        matrix(arch.hidden_size,
               {whole(prefix + "mlp.router", experts.n_experts, arch.hidden_size, Bias::kYes)});
    for (std::uint32_t e = 0; e < experts.n_experts; ++e)
      map.experts.push_back(expert_mlp(experts, arch.hidden_size, prefix + "mlp.experts.", e));
    out.tensors.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
