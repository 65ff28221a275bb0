// gemma, gemma2 and gemma3_text: norms that store weight - 1, scaled embeddings, tied head.
// gemma2 adds soft caps, norms after each block and windows on even layers; gemma3 adds norms on q
// and k and a rope of its own for the layers with a window.

#include <cmath>

#include "model/families/common.h"

namespace coxswain::model {
namespace {

ArchSpec read_shared(ConfigReader& config, std::uint32_t n_kv_heads) {
  ArchSpec arch = read_standard_shape(config, {.n_kv_heads = n_kv_heads, .head_dim = 256});
  arch.norm = read_rms_norm(config, 1e-6);
  arch.norm.weight_offset = 1.0F;
  if (config.flag_or("use_bidirectional_attention", false))
    config.unsupported("use_bidirectional_attention", "true is not supported");
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  arch.embedding.scale = std::sqrt(static_cast<float>(arch.hidden_size));
  return arch;
}

float read_soft_cap(ConfigReader& config, std::string_view field, double fallback) {
  return static_cast<float>(
      config.number_or(field, 0.0, 1e6, config.says_null(field) ? 0.0 : fallback));
}

// What gemma2 and gemma3 share beyond the first.
void read_later_fields(ConfigReader& config, ArchSpec& arch) {
  set_activation(arch, read_activation(config, "hidden_activation", "gelu_pytorch_tanh"));
  arch.norm_after = true;
  const double scalar = config.number_or("query_pre_attn_scalar", 1e-3, 1e6, 256.0);
  for (LayerSpec& layer : arch.layers)
    layer.attention().scale = static_cast<float>(1.0 / std::sqrt(scalar));
}

// Four norms a layer.
TensorMap tensors_with_norms_after(const ArchSpec& arch, LlamaNames names) {
  names.mlp_norm = "pre_feedforward_layernorm";
  TensorMap out = llama_tensors(arch, names);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("layers.", i);
    out.layers[i].mixer_norm_after = norm(prefix + "post_attention_layernorm", arch.hidden_size);
    out.layers[i].feed_forward_norm_after =
        norm(prefix + "post_feedforward_layernorm", arch.hidden_size);
  }
  return out;
}

// Old configs count the layers between two that see everything; `pattern` is their default.
void read_windows(ConfigReader& config, ArchSpec& arch, std::uint32_t pattern) {
  const std::uint32_t window = read_window(config, 4096);
  if (read_layer_types(config, arch, window)) return;
  pattern = config.count_of_or(
      {"sliding_window_pattern", "_sliding_window_pattern"}, 1, kLayersMax, pattern);
  if (window == 0 && pattern > 1)
    config.fail("sliding_window", "is null, but this family has layers with a window");
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i)
    arch.layers[i].attention().window = (i + 1) % pattern == 0 ? 0 : window;
}

// Parameters of the layers that see everything, which old configs call rope_scaling, and of those
// with a window.
void read_two_ropes(ConfigReader& config, ArchSpec& arch) {
  RopeDefaults global;
  global.theta = config.number_or("rope_theta", 1.0, 1e12, 1e6);
  RopeDefaults local;
  local.theta = config.number_or("rope_local_base_freq", 1.0, 1e12, 1e4);
  ConfigReader both =
      config.has("rope_parameters") ? config.object("rope_parameters") : ConfigReader::empty();
  const auto read_one = [&](ConfigReader& from, std::string_view field, const RopeDefaults& d) {
    ConfigReader parameters = from.has(field) ? from.object(field) : ConfigReader::empty();
    RopeSpec rope = read_rope_parameters(parameters, rope_shape(arch), d);
    from.join(parameters);
    return rope;
  };
  arch.ropes = {config.has("rope_scaling") ? read_one(config, "rope_scaling", global)
                                           : read_one(both, "full_attention", global),
                read_one(both, "sliding_attention", local)};
  config.join(both);
  // A sequence has one length at which its angles change (ModelInfo::rope_switch_length).
  const RopeSwitch full = rope_switch(arch.ropes[0]);
  const RopeSwitch sliding = rope_switch(arch.ropes[1]);
  if (full.length != 0 && sliding.length != 0 &&
      (full.length != sliding.length || full.exact != sliding.exact)) {
    config.unsupported("rope_parameters",
                       "with two scalings that change at different lengths is not supported");
  }
  for (LayerSpec& layer : arch.layers)
    layer.attention().rope = layer.attention().window == 0 ? 0 : 1;
}

}  // namespace

Architecture read_gemma(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, 16);
  // The published configs say "gelu" and mean the tanh form.
  set_activation(out.arch, read_activation(config, "hidden_act", "gelu_pytorch_tanh"));
  if (config.text_or("hidden_act", "") == "gelu")
    set_activation(out.arch, kernels::Activation::kGeluTanh);
  add_rope(out.arch, read_rope(config, rope_shape(out.arch), {}));
  out.tensors = llama_tensors(out.arch, read_llama_names(config, false));
  return out;
}

Architecture read_gemma2(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, 4);
  read_later_fields(config, out.arch);
  const float soft_cap = read_soft_cap(config, "attn_logit_softcapping", 50.0);
  for (LayerSpec& layer : out.arch.layers) layer.attention().soft_cap = soft_cap;
  out.arch.head.soft_cap = read_soft_cap(config, "final_logit_softcapping", 30.0);
  read_windows(config, out.arch, 2);
  add_rope(out.arch, read_rope(config, rope_shape(out.arch), {}));
  out.tensors = tensors_with_norms_after(out.arch, read_llama_names(config, false));
  return out;
}

Architecture read_gemma3_text(ConfigReader& config) {
  Architecture out;
  out.arch = read_shared(config, 4);
  read_later_fields(config, out.arch);
  // attn_logit_softcapping stands in the configs, but the reference implementation ignores it.
  out.arch.head.soft_cap = read_soft_cap(config, "final_logit_softcapping", 0.0);
  read_windows(config, out.arch, 6);
  read_two_ropes(config, out.arch);
  set_qk_norm(out.arch, QkNorm::kPerHead);
  out.tensors = tensors_with_norms_after(out.arch, read_llama_names(config, false));
  return out;
}

}  // namespace coxswain::model
