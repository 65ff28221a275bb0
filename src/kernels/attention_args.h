#pragma once
// Arguments of the attention entries of KernelTable, and how keys and values lie in the cache.
//
// Thread rule: values; the memory behind the pointers belongs to the caller until the entry returns.

#include <cstddef>
#include <cstdint>
#include <span>

#include <coxswain/types.h>

#include "tensor/dtype.h"

namespace coxswain::kernels {

// Rows of one sequence in an attention call: consecutive positions starting at first_position.
struct AttentionSequence {
  std::size_t first_row = 0;
  std::size_t n_rows = 0;
  std::int32_t first_position = 0;
  // Covers positions [0, first_position + n_rows); kReleasedBlock where neither window nor sink tokens are.
  std::span<const BlockId> blocks;
};

// Positions are partitioned at multiples of this constant, a multiple of every allowed block size; partitions are
// merged in order.
inline constexpr std::int32_t kAttentionPartition = 256;

// The cache of one layer: block b starts at base + b * block_stride_bytes and holds keys
// [n_kv_heads, block_tokens, head_dim]; values likewise, in a region of their own.
//
// kI8 is asymmetric, by head and token. Behind each head's codes [block_tokens, head_dim], of 8 bits without sign, lie
// float32 scales [block_tokens] and zeros [block_tokens]; a value is code * scale + zero, with zero the least value of
// the vector and scale (greatest - least) / 255. A vector that holds an infinity or NaN is NaN throughout.
//
// kI4 is the same in 15 steps, two codes in a byte: of each 64 values of a vector, or what is left at its end, the
// first half in the lower bits and the second in the upper.
//
// kF8E4M3 and kF8E5M2 have no scale: round to nearest even, beyond the greatest finite number that number; NaN stays.
struct KvLayerView {
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  std::size_t k_block_stride_bytes = 0;
  std::size_t v_block_stride_bytes = 0;
  tensor::DType type = tensor::DType::kF32;
  std::size_t n_kv_heads = 0;
  std::size_t block_tokens = 0;
  std::size_t k_head_dim = 0;
  std::size_t v_head_dim = 0;
};

// Bytes of a vector, without what stands behind those of its head.
constexpr std::size_t kv_vector_bytes(tensor::DType type, std::size_t n) {
  return type == tensor::DType::kI4 ? n / 64 * 32 + (n % 64 + 1) / 2 : n * tensor::size_of(type);
}

// Bytes of one head in a block: its vectors, and what stands behind them.
constexpr std::size_t kv_head_bytes(tensor::DType type, std::size_t tokens, std::size_t head_dim) {
  const bool codes = type == tensor::DType::kI8 || type == tensor::DType::kI4;
  return tokens * (kv_vector_bytes(type, head_dim) + (codes ? 2 * sizeof(float) : 0));
}

// Stores keys and values of the step's rows. Attention always reads them back as stored.
struct KvWriteArgs {
  KvLayerView cache;
  const float* k = nullptr;  // [rows, n_kv_heads, k_head_dim]
  std::size_t k_stride = 0;
  const float* v = nullptr;  // [rows, n_kv_heads, v_head_dim]
  std::size_t v_stride = 0;
  std::span<const AttentionSequence> sequences;
};

// out[row, h] = sum_p softmax_p(score(q[row, h], k[p])) v[p], p over the visible positions of the row's sequence.
//
//   score = scale * q.k
//   score = soft_cap * tanh(score / soft_cap)     where soft_cap is not 0
//   score = score + alibi_slopes[h] * p           where there are slopes
//
// A score of -infinity has no weight; a row of nothing else yields zeros (with a finite sink it does anyway). NaN and
// +infinity in a score make the row's head NaN.
struct AttentionArgs {
  KvLayerView cache;
  const float* q = nullptr;  // [rows, n_heads, k_head_dim]
  std::size_t q_stride = 0;
  float* out = nullptr;  // [rows, n_heads, v_head_dim]
  std::size_t out_stride = 0;
  std::size_t n_heads = 0;
  float scale = 1.0F;
  float soft_cap = 0.0F;    // 0 = off
  std::int32_t window = 0;  // 0 = all; w: positions (p_row - w, p_row] are visible
  // Of a row with a window: positions [0, sink_tokens) are visible to all rows at or behind them, too (StreamingLLM;
  // Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks).
  std::int32_t sink_tokens = 0;
  const float* sinks = nullptr;         // [n_heads] extra logit in the denominator, or null
  const float* alibi_slopes = nullptr;  // [n_heads] or null
  std::span<const AttentionSequence> sequences;
  std::span<std::byte> scratch;  // at least attention_scratch_bytes(...), 64-byte aligned
};

std::size_t attention_scratch_bytes(std::size_t n_threads,
                                    std::size_t n_heads,
                                    std::size_t head_dim_max);

}  // namespace coxswain::kernels
