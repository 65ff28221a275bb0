#pragma once
// ArchSpec: a decoder architecture as data. A family file (families/) fills it from config.json; the decoder core
// (decoder.h) runs it. Nothing here knows a family by name.
//
// A layer is a mixer and a feed-forward (blocks/blocks.h), wired to the residual stream x as follows, every optional
// part left out where its flag is off:
//
//   sequential:
//     h = norm_before(x)
//     a = norm_after(mixer(h))
//     x = r + m * a                        r is x, or h where residual_from_norm; m is residual_multiplier
//     and then the same with the feed-forward in the mixer's place, with norms of its own
//
//   parallel:
//     h = norm_before(x)
//     g = feed_forward_norm(x), or h       where parallel_feed_forward_norm is off
//     x = x + m * norm_after(mixer(h)) + m * norm_after(feed_forward(g))
//
//   placement kAfterResidual:
//     x = norm(x + mixer(x))
//     x = norm(x + feed_forward(x))
//
// Ahead of the first layer stands the embedding (blocks/embedding.h), behind the last the head (blocks/head.h).
//
// Thread rule: values.

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "kernels/elementwise_args.h"
#include "model/blocks/blocks.h"
#include "model/blocks/embedding.h"
#include "model/blocks/head.h"

namespace coxswain::model {

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

enum class NormPlacement : std::uint8_t { kBefore, kAfterResidual };

struct LayerSpec {
  MixerSpec mixer;
  FeedForwardSpec feed_forward;

  // REQUIRES: the layer is of that kind.
  AttentionSpec& attention() { return std::get<AttentionSpec>(mixer); }
  const AttentionSpec& attention() const { return std::get<AttentionSpec>(mixer); }
  MlpSpec& mlp() { return std::get<MlpSpec>(feed_forward); }
  const MlpSpec& mlp() const { return std::get<MlpSpec>(feed_forward); }
  const ExpertsSpec& experts() const { return std::get<ExpertsSpec>(feed_forward); }
  bool has_experts() const { return std::holds_alternative<ExpertsSpec>(feed_forward); }
};

struct ArchSpec {
  std::string model_type;
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t max_positions = 0;

  EmbeddingSpec embedding;

  NormSpec norm;
  bool norm_before = true;
  bool norm_after = false;
  NormPlacement placement = NormPlacement::kBefore;
  bool residual_from_norm = false;
  bool parallel = false;
  // The feed-forward of a parallel layer has a norm of its own.
  bool parallel_feed_forward_norm = false;
  float residual_multiplier = 1.0F;
  std::vector<RopeSpec> ropes;  // AttentionSpec::rope is an index into these
  std::vector<LayerSpec> layers;

  HeadSpec head;

  std::uint32_t n_layers() const { return static_cast<std::uint32_t>(layers.size()); }
};

}  // namespace coxswain::model
