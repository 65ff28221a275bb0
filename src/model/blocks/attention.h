#pragma once
// Attention over the keys and values of a sequence (Vaswani et al. 2017), with grouped heads:
//
//   q, k, v = w_qkv x           clipped to +-clip_qkv, where set
//   q, k    = norm(q), norm(k)  where qk_norm
//   q, k    = rope(q), rope(k)  where rope
//   the cache takes k and v; out = softmax(scale * q.k ...) v over the visible positions (kernels/attention_args.h)
//   y       = w_out out
//
// Thread rule: values; weights are immutable after load.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/status.h>

#include "kernels/attention_args.h"
#include "model/blocks/block.h"
#include "model/blocks/norm.h"
#include "model/tensor_map.h"
#include "model/weight_parts.h"

namespace coxswain::model {

enum class QkNorm : std::uint8_t {
  kNone,
  kPerHead,     // weight [head_dim], shared by the heads
  kOwnPerHead,  // weight [heads, head_dim]
  kWhole,       // one norm over all heads together
};

class Attention;

struct AttentionSpec {
  using Block = Attention;

  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;  // divides n_heads
  std::uint32_t head_dim = 0;
  std::uint32_t window = 0;       // 0 = everything; w = positions (p - w, p]
  std::uint32_t sink_tokens = 0;  // beside a window: the first positions, which are visible, too
  std::int32_t rope = -1;         // index into ArchSpec::ropes; -1 = none
  float scale = 1.0F;             // of q.k
  float soft_cap = 0.0F;          // 0 = off
  float clip_qkv = 0.0F;          // 0 = off
  QkNorm qk_norm = QkNorm::kNone;
  NormSpec qk_norm_spec;
  std::vector<float> alibi_slopes;  // [n_heads] or empty

  std::uint32_t q_width() const { return n_heads * head_dim; }
  std::uint32_t kv_width() const { return n_kv_heads * head_dim; }
  std::uint32_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

struct AttentionMap {
  MatrixMap qkv;  // rows of q, then k, then v
  MatrixMap out;
  NormMap q_norm;
  NormMap k_norm;
  VectorMap sinks;  // [n_heads] or empty

  template <typename Visitor>
  void visit(Visitor&& f) const {
    f(q_norm);
    f(k_norm);
    f(qkv);
    f(out);
    f(sinks);
  }
};

class Attention {
 public:
  using Spec = AttentionSpec;
  using Map = AttentionMap;

  static Result<Attention> load(const BlockLoad& how, const Spec& spec, const Map& map);
  static BlockNeeds needs(const Spec& spec, const BlockSizes& sizes);
  static KvShape kv_shape(const Spec& spec);

  void run(const StepContext& step,
           std::span<std::byte> room,
           const kernels::KvLayerView& cache,
           const float* x,
           float* y,
           bool accumulate) const;

 private:
  struct Buffers {
    std::span<float> qkv;    // [n_rows, qkv_width]
    std::span<float> heads;  // [n_rows, q_width]: their outputs
    std::span<std::byte> scratch;
  };
  static Buffers place(const Spec& spec, std::size_t n_rows, std::size_t n_threads, Carver& carver);
  void norm_heads(const StepContext& step,
                  float* x,
                  std::size_t n_heads,
                  const NormWeights& w) const;
  void apply_rope(const StepContext& step, float* qkv) const;
  void attend(const StepContext& step,
              const Buffers& buffers,
              const kernels::KvLayerView& cache) const;

  Spec spec_;
  Linear qkv_;  // [qkv_width, hidden]
  Linear out_;  // [hidden, q_width]
  NormWeights q_norm_;
  NormWeights k_norm_;
  std::vector<float> sinks_;  // [n_heads] or empty
  // Of e4m3fn in the cache, which holds keys and values divided by them.
  float k_scale_ = 1.0F;
  float v_scale_ = 1.0F;
};

}  // namespace coxswain::model
