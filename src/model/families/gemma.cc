// gemma, gemma2 and gemma3_text: norms that store weight - 1, scaled embeddings, tied head.
// gemma2 adds soft caps, norms after each block and windows on even layers; gemma3 adds norms on q
// and k and a rope of its own for the layers with a window.

#include <cmath>

#include "model/families/common.h"

namespace coxswain::model {
namespace {

ArchSpec read_shared(ConfigReader& config) {
  ArchSpec arch = read_standard_shape(config);
  arch.norm.epsilon = static_cast<float>(config.number_or("rms_norm_eps", 0.0, 1.0, 1e-6));
  arch.norm.weight_offset = 1.0F;
  // The first configs say "gelu" in hidden_act and mean the tanh form; hidden_activation is what
  // counts.
  arch.mlp.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  arch.tied = config.flag_or("tie_word_embeddings", true);
  arch.embedding_scale = std::sqrt(static_cast<float>(arch.hidden_size));
  return arch;
}

void read_caps_and_scale(ConfigReader& config, ArchSpec& arch) {
  arch.norm_after = true;
  arch.attention.soft_cap =
      static_cast<float>(config.number_or("attn_logit_softcapping", 0.0, 1e6, 0.0));
  arch.logit_soft_cap =
      static_cast<float>(config.number_or("final_logit_softcapping", 0.0, 1e6, 0.0));
  const double scalar = config.number_or("query_pre_attn_scalar", 1e-3, 1e6, 256.0);
  for (LayerSpec& layer : arch.layers)
    layer.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
}

LlamaNames names_for(ConfigReader& config) {
  LlamaNames names;
  names.qkv_bias = bias_if(config.flag_or("attention_bias", false));
  names.out_bias = names.qkv_bias;
  return names;
}

// Four norms a layer.
TensorMap tensors_with_norms_after(const ArchSpec& arch, LlamaNames names) {
  names.mlp_norm = "pre_feedforward_layernorm";
  TensorMap out = llama_tensors(arch, names);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    out.layers[i].attention_norm_after =
        norm(prefix + "post_attention_layernorm", arch.hidden_size);
    out.layers[i].mlp_norm_after = norm(prefix + "post_feedforward_layernorm", arch.hidden_size);
  }
  return out;
}

// Old configs count the layers between two that see everything; `pattern` is their default.
void read_windows(ConfigReader& config, ArchSpec& arch, std::uint32_t pattern) {
  const std::uint32_t window = config.count_or("sliding_window", 1, kPositionsMax, 4096);
  if (read_layer_types(config, arch, window)) return;
  pattern = config.count_of_or(
      {"sliding_window_pattern", "_sliding_window_pattern"}, 1, kLayersMax, pattern);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i)
    arch.layers[i].window = (i + 1) % pattern == 0 ? 0 : window;
}

void read_two_ropes(ConfigReader& config, ArchSpec& arch) {
  RopeDefaults global;
  global.theta = 1e6;
  RopeDefaults local;
  local.theta = config.number_or("rope_local_base_freq", 1.0, 1e12, 1e4);
  const json::Value* parameters = config.get("rope_parameters");
  if (parameters != nullptr && parameters->find("full_attention") != nullptr) {
    ConfigReader both = config.object("rope_parameters");
    ConfigReader full = both.object("full_attention");
    ConfigReader sliding = both.object("sliding_attention");
    arch.ropes = {read_rope_parameters(full, arch, global),
                  read_rope_parameters(sliding, arch, local)};
    config.join(both);
    config.join(full);
    config.join(sliding);
  } else {
    const json::Value nothing{json::Object{}};
    ConfigReader plain(nothing, "config.json: ");
    arch.ropes = {read_rope(config, arch, global), read_rope_parameters(plain, arch, local)};
    config.join(plain);
  }
  for (LayerSpec& layer : arch.layers) layer.rope = layer.window == 0 ? 0 : 1;
}

}  // namespace

Architecture read_gemma(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config);
  add_rope(out.arch, read_rope(config, out.arch, {}));
  out.tensors = llama_tensors(out.arch, names_for(config));
  return out;
}

Architecture read_gemma2(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config);
  read_caps_and_scale(config, out.arch);
  read_windows(config, out.arch, 2);
  add_rope(out.arch, read_rope(config, out.arch, {}));
  out.tensors = tensors_with_norms_after(out.arch, names_for(config));
  return out;
}

Architecture read_gemma3_text(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config);
  read_caps_and_scale(config, out.arch);
  read_windows(config, out.arch, 6);
  read_two_ropes(config, out.arch);
  out.arch.attention.qk_norm = QkNorm::kPerHead;
  out.arch.attention.qk_norm_spec = out.arch.norm;
  out.tensors = tensors_with_norms_after(out.arch, names_for(config));
  return out;
}

}  // namespace coxswain::model
