// mistral: llama with a sliding window on every layer; mixtral: the same with a mixture of experts
// in place of the MLP.

#include "model/families/common.h"

namespace coxswain::model {
namespace {

// What a config means that leaves a field out.
struct Defaults {
  double epsilon = 0.0;
  double rope_theta = 0.0;
  std::uint32_t window = 0;
};

ArchSpec read_shared(ConfigReader& config, const Defaults& defaults) {
  ArchSpec arch = read_standard_shape(config, {.n_kv_heads = 8});
  arch.norm = read_rms_norm(config, defaults.epsilon);
  set_activation(arch, read_activation(config, "hidden_act", "silu"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  RopeDefaults rope;
  rope.theta = defaults.rope_theta;
  add_rope(arch, read_rope(config, rope_shape(arch), rope));
  set_window(arch, read_window(config, defaults.window));
  return arch;
}

}  // namespace

Architecture read_mistral(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, {.epsilon = 1e-6, .rope_theta = 1e4, .window = 4096});
  read_layer_types(config, out.arch, out.arch.layers.front().attention().window);
  out.tensors = llama_tensors(out.arch, {});
  return out;
}

// Jiang et al. 2024, arXiv:2401.04088: softmax over the experts chosen for a token.
Architecture read_mixtral(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, {.epsilon = 1e-5, .rope_theta = 1e6});
  ArchSpec& arch = out.arch;
  ExpertsSpec experts;
  experts.n_experts = config.count_of({"num_local_experts", "num_experts"}, 1, experts_max(arch));
  experts.n_used = config.count("num_experts_per_tok", 1, experts.n_experts);
  experts.routing = Routing::kTopThenSoftmax;
  const std::uint32_t inner = arch.layers.front().mlp().intermediate;
  for (LayerSpec& layer : arch.layers) set_experts(layer, experts, inner);
  const LlamaNames names;
  out.tensors = llama_outer(arch, names);
  const std::uint64_t hidden = arch.hidden_size;
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    LayerMap layer = llama_attention(arch, prefix, names);
    ExpertsMap& map = layer.feed_forward.emplace<ExpertsMap>();
    map.router =
        matrix(hidden, {whole(prefix + "block_sparse_moe.gate", experts.n_experts, hidden)});
    for (std::uint32_t e = 0; e < experts.n_experts; ++e) {
      const std::string expert = layer_prefix(prefix + "block_sparse_moe.experts.", e);
      map.experts.push_back(
          {matrix(hidden,
                  {whole(expert + "w1", inner, hidden), whole(expert + "w3", inner, hidden)}),
           matrix(inner, {whole(expert + "w2", hidden, inner)})});
    }
    out.tensors.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
