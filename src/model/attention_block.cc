// Attention of one layer, up to the heads' outputs.

#include <algorithm>

#include "model/decoder.h"

namespace coxswain::model {
namespace {

struct Heads {
  float* x = nullptr;  // inside work.qkv
  std::size_t n_heads = 0;
};

void norm_heads(const StepContext& step, const Heads& heads, const NormWeights& w) {
  const AttentionSpec& a = step.arch.attention;
  kernels::NormArgs args;
  args.x = heads.x;
  args.x_stride = a.qkv_width();
  args.y = heads.x;
  args.y_stride = a.qkv_width();
  args.m = step.n_rows;
  const bool whole = a.qk_norm == QkNorm::kWhole;
  args.n = whole ? heads.n_heads * a.head_dim : a.head_dim;
  args.groups = whole ? 1 : heads.n_heads;
  args.weight_per_group = a.qk_norm == QkNorm::kOwnPerHead;
  args.weight = w.weight.data();
  args.bias = w.bias.empty() ? nullptr : w.bias.data();
  args.epsilon = a.qk_norm_spec.epsilon;
  args.weight_offset = a.qk_norm_spec.weight_offset;
  (a.qk_norm_spec.kind == NormKind::kRms ? step.kernels.rms_norm : step.kernels.layer_norm)(
      step.pool, args);
}

void turn_heads(const StepContext& step, std::size_t rope_index) {
  const AttentionSpec& a = step.arch.attention;
  const RopeSpec& rope = step.arch.ropes[rope_index];
  const std::size_t table = step.work.sizes.n_rows * angle_width(step.arch);
  kernels::RopeArgs args;
  args.x = step.work.qkv.data();
  args.x_stride = a.qkv_width();
  args.m = step.n_rows;
  args.n_heads = a.n_heads + a.n_kv_heads;  // k follows q
  args.head_dim = a.head_dim;
  args.rotary_dim = rope.rotary_dim;
  args.cos = step.work.cos.data() + rope_index * table;
  args.sin = step.work.sin.data() + rope_index * table;
  args.style = rope.style;
  step.kernels.rope(step.pool, args);
}

}  // namespace

void run_attention(const StepContext& step,
                   const LayerSpec& spec,
                   const LayerWeights& w,
                   const float* x,
                   const kernels::KvLayerView& cache) {
  const AttentionSpec& a = step.arch.attention;
  float* const q = step.work.qkv.data();
  float* const k = q + a.q_width();
  float* const v = k + a.kv_width();
  step.linear(w.qkv, x, q, step.n_rows);
  if (a.clip_qkv > 0.0F) {
    step.pool.run(step.n_rows, [&](std::size_t row, std::size_t) {
      float* const begin = q + row * a.qkv_width();
      for (float* value = begin; value != begin + a.qkv_width(); ++value)
        *value = std::clamp(*value, -a.clip_qkv, a.clip_qkv);
    });
  }
  if (a.qk_norm != QkNorm::kNone) {
    norm_heads(step, {q, a.n_heads}, w.q_norm);
    norm_heads(step, {k, a.n_kv_heads}, w.k_norm);
  }
  if (spec.rope >= 0) turn_heads(step, static_cast<std::size_t>(spec.rope));

  kernels::KvWriteArgs write;
  write.cache = cache;
  write.k = k;
  write.k_stride = a.qkv_width();
  write.v = v;
  write.v_stride = a.qkv_width();
  write.sequences = step.work.sequences;
  step.kernels.kv_write(step.pool, write);

  kernels::AttentionArgs args;
  args.cache = cache;
  args.q = q;
  args.q_stride = a.qkv_width();
  args.out = step.work.attention.data();
  args.out_stride = a.q_width();
  args.n_heads = a.n_heads;
  args.scale = spec.attention_scale;
  args.soft_cap = a.soft_cap;
  args.window = static_cast<std::int32_t>(spec.window);
  args.sinks = w.sinks.empty() ? nullptr : w.sinks.data();
  args.alibi_slopes = a.alibi_slopes.empty() ? nullptr : a.alibi_slopes.data();
  args.sequences = step.work.sequences;
  args.scratch = step.work.attention_scratch;
  step.kernels.attention(step.pool, args);
}

}  // namespace coxswain::model
