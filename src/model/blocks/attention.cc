#include "model/blocks/attention.h"

#include <algorithm>

#include "model/step_context.h"
#include "model/weight_loader.h"

namespace coxswain::model {
namespace {

// "layers.3.self_attn.q_proj.weight" is of "layers.3.self_attn".
std::string module_of(const AttentionMap& map) {
  std::string name = map.qkv.rows.front().tensor;
  for (int i = 0; i < 2; ++i) name.resize(std::min(name.rfind('.'), name.size()));
  return name;
}

void scale_rows(
    const StepContext& step, float* x, std::size_t stride, std::size_t width, float scale) {
  if (scale == 1.0F) return;
  step.kernels.soft_cap(step.exec,
                        {.x = x, .x_stride = stride, .m = step.n_rows, .n = width, .scale = scale});
}

}  // namespace

Result<Attention> Attention::load(const BlockLoad& how, const Spec& spec, const Map& map) {
  Attention out;
  out.spec_ = spec;
  COXSWAIN_ASSIGN_OR_RETURN(out.qkv_, how.loader.linear(map.qkv, how.format));
  COXSWAIN_ASSIGN_OR_RETURN(out.out_, how.loader.linear(map.out, how.format));
  COXSWAIN_ASSIGN_OR_RETURN(out.q_norm_, how.loader.norm(map.q_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.k_norm_, how.loader.norm(map.k_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.sinks_, how.loader.vector(map.sinks));
  const std::string module = module_of(map);
  WeightReader& reader = how.loader.reader();
  COXSWAIN_ASSIGN_OR_RETURN(out.k_scale_,
                            reader.scale_or_one({module + ".k_scale", module + ".kv_scale"}));
  COXSWAIN_ASSIGN_OR_RETURN(out.v_scale_,
                            reader.scale_or_one({module + ".v_scale", module + ".kv_scale"}));
  return out;
}

Attention::Buffers Attention::place(const Spec& spec,
                                    std::size_t n_rows,
                                    std::size_t n_threads,
                                    Carver& carver) {
  Buffers out;
  out.qkv = carver.take<float>(n_rows * spec.qkv_width());
  out.heads = carver.take<float>(n_rows * spec.q_width());
  out.scratch = carver.take<std::byte>(
      kernels::attention_scratch_bytes(n_threads, spec.n_heads, spec.head_dim));
  return out;
}

BlockNeeds Attention::needs(const Spec& spec, const BlockSizes& sizes) {
  Carver counted;
  place(spec, sizes.n_rows, sizes.n_threads, counted);
  const std::size_t k_max = std::max<std::size_t>(sizes.hidden, spec.q_width());
  return {counted.taken(), sizes.linear_scratch(k_max)};
}

KvShape Attention::kv_shape(const Spec& spec) {
  return {spec.window == 0 ? KvGroup::Kind::kFull : KvGroup::Kind::kWindow,
          spec.window,
          spec.sink_tokens,
          spec.n_kv_heads,
          spec.head_dim,
          spec.head_dim};
}

void Attention::norm_heads(const StepContext& step,
                           float* x,
                           std::size_t n_heads,
                           const NormWeights& w) const {
  const bool whole = spec_.qk_norm == QkNorm::kWhole;
  NormedRows rows;
  rows.data = x;
  rows.stride = spec_.qkv_width();
  rows.m = step.n_rows;
  rows.n = whole ? n_heads * spec_.head_dim : spec_.head_dim;
  rows.groups = whole ? 1 : n_heads;
  rows.weight_per_group = spec_.qk_norm == QkNorm::kOwnPerHead;
  run_norm(step, spec_.qk_norm_spec, w, rows);
}

void Attention::apply_rope(const StepContext& step, float* qkv) const {
  const RopeTable& rope = step.ropes[static_cast<std::size_t>(spec_.rope)];
  kernels::RopeArgs args;
  args.x = qkv;
  args.x_stride = spec_.qkv_width();
  args.m = step.n_rows;
  args.n_heads = spec_.n_heads + spec_.n_kv_heads;  // k follows q
  args.head_dim = spec_.head_dim;
  args.rotary_dim = rope.rotary_dim;
  args.cos = rope.cos;
  args.sin = rope.sin;
  args.style = rope.style;
  step.kernels.rope(step.exec, args);
}

void Attention::attend(const StepContext& step,
                       const Buffers& buffers,
                       const kernels::KvLayerView& cache) const {
  const float* const q = buffers.qkv.data();
  float* const k = buffers.qkv.data() + spec_.q_width();
  const bool scaled = cache.type == tensor::DType::kF8E4M3;
  const float k_scale = scaled ? k_scale_ : 1.0F;
  const float v_scale = scaled ? v_scale_ : 1.0F;
  scale_rows(step, k, spec_.qkv_width(), spec_.kv_width(), 1.0F / k_scale);
  scale_rows(step, k + spec_.kv_width(), spec_.qkv_width(), spec_.kv_width(), 1.0F / v_scale);
  kernels::KvWriteArgs write;
  write.cache = cache;
  write.k = k;
  write.k_stride = spec_.qkv_width();
  write.v = k + spec_.kv_width();
  write.v_stride = spec_.qkv_width();
  write.sequences = step.work.sequences;
  step.kernels.kv_write(step.exec, write);

  kernels::AttentionArgs args;
  args.cache = cache;
  args.q = q;
  args.q_stride = spec_.qkv_width();
  args.out = buffers.heads.data();
  args.out_stride = spec_.q_width();
  args.n_heads = spec_.n_heads;
  args.scale = spec_.scale * k_scale;
  args.soft_cap = spec_.soft_cap;
  args.window = static_cast<std::int32_t>(spec_.window);
  args.sink_tokens = static_cast<std::int32_t>(spec_.sink_tokens);
  args.sinks = sinks_.empty() ? nullptr : sinks_.data();
  args.alibi_slopes = spec_.alibi_slopes.empty() ? nullptr : spec_.alibi_slopes.data();
  args.sequences = step.work.sequences;
  args.scratch = buffers.scratch;
  step.kernels.attention(step.exec, args);
  scale_rows(step, buffers.heads.data(), spec_.q_width(), spec_.q_width(), v_scale);
}

void Attention::run(const StepContext& step,
                    std::span<std::byte> room,
                    const kernels::KvLayerView& cache,
                    const float* x,
                    float* y,
                    bool accumulate) const {
  Carver carver(room);
  const Buffers buffers = place(spec_, step.n_rows, step.exec.n_threads(), carver);
  float* const q = buffers.qkv.data();
  step.linear(qkv_, x, q, step.n_rows);
  if (spec_.clip_qkv > 0.0F) {
    const std::size_t width = spec_.qkv_width();
    step.kernels.clip(step.exec, {q, width, step.n_rows, width, spec_.clip_qkv});
  }
  if (spec_.qk_norm != QkNorm::kNone) {
    norm_heads(step, q, spec_.n_heads, q_norm_);
    norm_heads(step, q + spec_.q_width(), spec_.n_kv_heads, k_norm_);
  }
  if (spec_.rope >= 0) apply_rope(step, q);
  attend(step, buffers, cache);
  step.linear(out_, buffers.heads.data(), y, step.n_rows, accumulate);
}

}  // namespace coxswain::model
