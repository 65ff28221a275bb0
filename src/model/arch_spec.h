#pragma once
// ArchSpec: a decoder architecture as data. A family file (families/) fills it from config.json;
// the decoder core (decoder.h) runs it.
//
// Nothing here knows a family by name. What a layer computes, with every optional part left out
// where its flag is off:
//
//   h = norm_before(x)                              a = attention(h)                  a =
//   norm_after(a) sequential:  x = r + m * a   (r is x, or h where residual_from_norm) then the
//   same with the MLP parallel:    x = x + m * (a + mlp(mlp_norm(x) or h)) placement
//   kAfterResidual: x = norm(x + a)
//
// Thread rule: values.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace coxswain::model {

enum class NormKind : std::uint8_t { kRms, kLayer };

struct NormSpec {
  NormKind kind = NormKind::kRms;
  float epsilon = 1e-5F;
  float weight_offset = 0.0F;  // 1 where files store weight - 1
};

// Rotary embedding (Su et al. 2021, arXiv:2104.09864) and the ways to stretch it.
enum class RopeScaling : std::uint8_t {
  kNone,
  kLinear,    // positions / factor
  kDynamic,   // NTK-aware base that grows with the length beyond the trained one
  kYarn,      // Peng et al. 2023, arXiv:2309.00071
  kLlama3,    // low frequencies / factor, smooth between
  kLongRope,  // Ding et al. 2024, arXiv:2402.13753: factors for each dimension, short and long
};

struct RopeSpec {
  RopeScaling scaling = RopeScaling::kNone;
  kernels::RopeStyle style = kernels::RopeStyle::kHalves;
  std::uint32_t rotary_dim = 0;  // even
  double theta = 10000.0;
  double factor = 1.0;
  double original_max_positions = 0.0;  // the trained length
  double low_freq_factor = 1.0;         // llama3
  double high_freq_factor = 4.0;
  double beta_fast = 32.0;  // yarn
  double beta_slow = 1.0;
  bool truncate = true;
  double attention_factor = 1.0;     // multiplies cos and sin
  std::vector<double> short_factor;  // longrope, [rotary_dim / 2]
  std::vector<double> long_factor;

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

enum class QkNorm : std::uint8_t {
  kNone,
  kPerHead,     // weight [head_dim], shared by the heads
  kOwnPerHead,  // weight [heads, head_dim]
  kWhole,       // one norm over all heads together
};

struct AttentionSpec {
  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;
  std::uint32_t head_dim = 0;
  float soft_cap = 0.0F;  // 0 = off
  float clip_qkv = 0.0F;  // 0 = off
  QkNorm qk_norm = QkNorm::kNone;
  NormSpec qk_norm_spec;
  std::vector<float> alibi_slopes;  // [n_heads] or empty

  std::uint32_t q_width() const { return n_heads * head_dim; }
  std::uint32_t kv_width() const { return n_kv_heads * head_dim; }
  std::uint32_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

// The two activations of a gated MLP whose kernels tables have no entry for stay here.
enum class GateKind : std::uint8_t {
  kNone,           // act(up)
  kGated,          // act(gate) * up
  kClampedSwiglu,  // gate * sigmoid(alpha * gate) * (up + 1), both clamped
};

struct MlpSpec {
  GateKind gate = GateKind::kGated;
  kernels::Activation activation = kernels::Activation::kSilu;
  float swiglu_limit = 0.0F;
  float swiglu_alpha = 0.0F;
};

enum class Routing : std::uint8_t {
  kSoftmaxThenTop,  // weights of all experts by softmax, then the best
  kTopThenSoftmax,  // softmax over the chosen ones only
};

struct MoeSpec {
  std::uint32_t n_experts = 0;
  std::uint32_t n_used = 0;
  std::uint32_t intermediate = 0;
  Routing routing = Routing::kSoftmaxThenTop;
  bool normalise = false;                 // chosen weights divided by their sum (kSoftmaxThenTop)
  std::uint32_t shared_intermediate = 0;  // 0 = no shared expert
  bool shared_gate = false;               // its output times sigmoid(x . w)
};

enum class NormPlacement : std::uint8_t { kBefore, kAfterResidual };

struct LayerSpec {
  std::uint32_t window = 0;        // 0 = everything; w = positions (p - w, p]
  std::int32_t rope = -1;          // index into ArchSpec::ropes; -1 = none
  float attention_scale = 1.0F;    // of q.k
  std::uint32_t intermediate = 0;  // of the dense MLP
  bool moe = false;
};

struct ArchSpec {
  std::string model_type;
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t max_positions = 0;
  std::vector<std::int32_t> eos_token_ids;

  // Input
  float embedding_scale = 1.0F;
  std::uint32_t embedding_size = 0;   // 0 = hidden_size; otherwise projected in and out
  std::uint32_t n_positions = 0;      // learned positions: rows of their table, 0 = none
  std::uint32_t position_offset = 0;  // added to a position before the look-up
  std::optional<NormSpec> embedding_norm;

  // Layers
  NormSpec norm;
  bool norm_before = true;
  bool norm_after = false;
  NormPlacement placement = NormPlacement::kBefore;
  bool residual_from_norm = false;
  bool parallel = false;
  bool parallel_mlp_norm = false;  // the MLP of a parallel block has a norm of its own
  float residual_multiplier = 1.0F;
  AttentionSpec attention;
  MlpSpec mlp;
  MoeSpec moe;
  std::vector<RopeSpec> ropes;
  std::vector<LayerSpec> layers;

  // Output
  bool final_norm = true;
  bool tied = false;
  float logit_scale = 1.0F;
  float logit_soft_cap = 0.0F;  // 0 = off

  std::uint32_t n_layers() const { return static_cast<std::uint32_t>(layers.size()); }
  std::uint32_t embedding_width() const {
    return embedding_size == 0 ? hidden_size : embedding_size;
  }
};

}  // namespace coxswain::model
