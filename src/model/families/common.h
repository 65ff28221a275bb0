#pragma once
// What families share: the usual field names of config.json, and short ways to write tensor maps.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/families/family.h"
#include "model/rope.h"

namespace coxswain::model {

// hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
// intermediate_size, vocab_size, max_position_embeddings. Layers are made with the intermediate
// size and the scale 1 / sqrt(head_dim).
struct ShapeDefaults {
  // Where the field is absent; 0 = as many as heads, as where it is null.
  std::uint32_t n_kv_heads = 0;
  std::uint32_t head_dim = 0;  // 0 = hidden_size / num_attention_heads
};
ArchSpec read_standard_shape(ConfigReader& config, const ShapeDefaults& defaults = {});

// For configs with other names: fills vocab, sizes and layers from numbers already read.
struct Shape {
  std::uint32_t vocab = 0;
  std::uint32_t hidden = 0;
  std::uint32_t n_layers = 0;
  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t intermediate = 0;
  std::uint32_t max_positions = 0;
};
ArchSpec make_arch(const Shape& shape);
// The names that gpt2 has: n_embd, n_layer, n_head, n_inner, n_positions.
Shape read_gpt2_shape(ConfigReader& config);
// hidden / heads, which must divide. `field` names the heads in a message.
std::uint32_t divided(ConfigReader& config,
                      std::uint32_t hidden,
                      std::uint32_t n_heads,
                      std::string_view field);

// An RMS norm; rms_norm_eps is `fallback` where it is absent.
NormSpec read_rms_norm(ConfigReader& config, double fallback);
// A layer norm whose epsilon stands in `field`; 1e-5 where it is absent.
NormSpec read_layer_norm(ConfigReader& config, std::string_view field);

// "silu", "gelu_new", ... Faults name the field.
kernels::Activation read_activation(ConfigReader& config,
                                    std::string_view field,
                                    std::string_view fallback);

// Slopes of Press et al. 2021 (arXiv:2108.12409) as the BLOOM code has them for head counts that
// are no power of two, times `scale`.
std::vector<float> alibi_slopes(std::uint32_t n_heads, float scale);

// How many experts a layer may have. REQUIRES: the layers are there.
std::uint32_t experts_max(const ArchSpec& arch);

// The attention of a family whose layers have equal heads.
inline const AttentionSpec& attention_of(const ArchSpec& arch) {
  return arch.layers.front().attention();
}
inline RopeShape rope_shape(const ArchSpec& arch) {
  return {attention_of(arch).head_dim, arch.max_positions};
}

// ---- for all layers; those of a fresh ArchSpec are attention and MLP ----
void set_mlp(ArchSpec& arch, GateKind gate, kernels::Activation activation);
void set_activation(ArchSpec& arch, kernels::Activation activation);
// Norms on q and k, of ArchSpec::norm.
void set_qk_norm(ArchSpec& arch, QkNorm kind);
void set_alibi(ArchSpec& arch, const std::vector<float>& slopes);
void set_clip(ArchSpec& arch, double limit);
// Puts experts in the place of a layer's MLP, with its gate and activation and an intermediate size of their own.
void set_experts(LayerSpec& layer, ExpertsSpec experts, std::uint32_t intermediate);

// One rope for all layers.
void add_rope(ArchSpec& arch, const RopeSpec& rope);
// The layers of layer_types that are "sliding_attention" get the window. Returns false if the field is absent.
bool read_layer_types(ConfigReader& config, ArchSpec& arch, std::uint32_t window);
void set_window(ArchSpec& arch, std::uint32_t window);
// sliding_window: `fallback` where it is absent, 0 (none) where it is null.
std::uint32_t read_window(ConfigReader& config, std::uint32_t fallback);

// ---- tensor maps ----
enum class Bias : bool { kNo, kYes };
constexpr Bias bias_if(bool yes) {
  return yes ? Bias::kYes : Bias::kNo;
}

// All rows of NAME.weight [n, k], with NAME.bias.
Rows whole(const std::string& name, std::uint64_t n, std::uint64_t k, Bias bias = Bias::kNo);
// `count` rows from `first` on, of NAME.weight [n, k].
Rows part(const std::string& name,
          std::uint64_t n,
          std::uint64_t k,
          std::uint64_t first,
          std::uint64_t count,
          Bias bias = Bias::kNo);
// NAME.weight stored as [k, n].
Rows transposed(const std::string& name, std::uint64_t n, std::uint64_t k, Bias bias = Bias::kNo);
MatrixMap matrix(std::uint64_t k, std::vector<Rows> rows);
NormMap norm(const std::string& name, std::uint64_t size, Bias bias = Bias::kNo);

// The names that llama's checkpoints brought into use, which most families keep.
struct LlamaNames {
  Bias qkv_bias = Bias::kNo;
  Bias out_bias = Bias::kNo;
  Bias mlp_bias = Bias::kNo;
  Bias norm_bias = Bias::kNo;
  std::string out = "self_attn.o_proj";
  std::string attention_norm = "input_layernorm";
  std::string mlp_norm = "post_attention_layernorm";
  std::string final_norm = "norm";
};
// attention_bias, `fallback` where it is absent, is about q, k, v and the output projection.
LlamaNames read_llama_names(ConfigReader& config, bool fallback);
// Embedding, final norm and head.
TensorMap llama_outer(const ArchSpec& arch, const LlamaNames& names);
// The same for checkpoints whose tensors lie below "transformer.", as gpt2's do.
TensorMap transformer_outer(const ArchSpec& arch, const std::string& embedding, NormMap final_norm);
// Gives the head lm_head.bias. REQUIRES: embedding and head are there.
void add_head_bias(const ArchSpec& arch, TensorMap& map);
// Norms, q, k, v and the output projection of one layer; no MLP. PREFIX is "layers.3.".
LayerMap llama_attention(const ArchSpec& arch, const std::string& prefix, const LlamaNames& names);
// gate_proj, up_proj and down_proj below PREFIX ("layers.3.mlp.").
MlpMap gated_mlp(const ArchSpec& arch,
                 const std::string& prefix,
                 std::uint32_t intermediate,
                 Bias bias = Bias::kNo);
MlpMap plain_mlp(const ArchSpec& arch,
                 const std::string& up,
                 const std::string& down,
                 std::uint32_t intermediate,
                 Bias bias);
// The three together for every layer.
TensorMap llama_tensors(const ArchSpec& arch, const LlamaNames& names);

// Rows of one fused q, k, v tensor whose heads lie interleaved: `n_groups` times [q x per_group, k,
// v] with head_dim rows each.
MatrixMap interleaved_qkv(const ArchSpec& arch,
                          const std::string& name,
                          std::uint32_t n_groups,
                          Bias bias);

std::string layer_prefix(std::string_view list, std::uint32_t layer);  // "layers." 3 -> "layers.3."

}  // namespace coxswain::model
