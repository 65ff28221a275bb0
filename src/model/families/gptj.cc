// gptj and codegen: parallel residual behind one norm, interleaved rotary pairs on the first
// rotary_dim values, a head with bias.

#include "model/families/common.h"

namespace coxswain::model {
namespace {

// The fused tensor of codegen was cut for this many cores, whatever the model's size.
constexpr std::uint32_t kCodegenGroups = 4;

Architecture read_shared(ConfigReader& config) {
  Architecture out;
  const Shape shape = read_gpt2_shape(config);
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_epsilon");
  set_mlp(arch, GateKind::kNone, read_activation(config, "activation_function", "gelu_new"));
  arch.head.tied = config.flag_or("tie_word_embeddings", false);
  arch.parallel = true;
  RopeSpec rope;
  rope.style = kernels::RopeStyle::kInterleaved;
  if (config.says_null("rotary_dim")) config.fail("rotary_dim", "must be a number, not null");
  rope.rotary_dim = config.count_or("rotary_dim", 2, shape.head_dim, 64);
  if (rope.rotary_dim % 2 != 0) config.fail("rotary_dim", "must be even");
  add_rope(arch, rope);

  const std::uint64_t hidden = shape.hidden;
  out.tensors = transformer_outer(arch, "wte", norm("ln_f", hidden, Bias::kYes));
  TensorMap& map = out.tensors;
  add_head_bias(arch, map);
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("h.", i);
    LayerMap layer;
    layer.mixer_norm = norm(prefix + "ln_1", hidden, Bias::kYes);
    layer.attention().out = matrix(hidden, {whole(prefix + "attn.out_proj", hidden, hidden)});
    layer.mlp() = plain_mlp(
        arch, prefix + "mlp.fc_in", prefix + "mlp.fc_out", shape.intermediate, Bias::kYes);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace

Architecture read_gptj(ConfigReader& config) {
  Architecture out = read_shared(config);
  const std::uint64_t hidden = out.arch.hidden_size;
  for (std::uint32_t i = 0; i < out.arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("h.", i) + "attn.";
    out.tensors.layers[i].attention().qkv = matrix(hidden,
                                                   {whole(prefix + "q_proj", hidden, hidden),
                                                    whole(prefix + "k_proj", hidden, hidden),
                                                    whole(prefix + "v_proj", hidden, hidden)});
  }
  return out;
}

// Within a group the rows are those of q, v, k.
Architecture read_codegen(ConfigReader& config) {
  Architecture out = read_shared(config);
  const std::uint64_t hidden = out.arch.hidden_size;
  if (attention_of(out.arch).n_heads % kCodegenGroups != 0)
    config.fail("n_head", "must be a multiple of 4");
  const std::uint64_t third = hidden / kCodegenGroups;
  for (std::uint32_t i = 0; i < out.arch.n_layers(); ++i) {
    const std::string name = layer_prefix("h.", i) + "attn.qkv_proj";
    MatrixMap& qkv = out.tensors.layers[i].attention().qkv;
    qkv.k = hidden;
    for (const std::uint64_t place : {0U, 2U, 1U}) {
      for (std::uint64_t g = 0; g < kCodegenGroups; ++g) {
        qkv.rows.push_back(part(name, 3 * hidden, hidden, (3 * g + place) * third, third));
      }
    }
  }
  return out;
}

}  // namespace coxswain::model
