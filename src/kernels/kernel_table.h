#pragma once
// KernelTable: every computing function of one instruction set, chosen once at start.
//
// Law 1, as kernels see it: the order in which an output element is summed depends on K (or
// head_dim, or the absolute positions of keys) alone; never on the number of rows, on how rows are
// blocked, on chunking or on threads. Splitting work over threads splits outputs, never a sum.
// Every entry is therefore a pure function of one row's inputs.
//
// A set's table starts as a copy of the next lower one and overrides entries, so no entry is null.
// Weights are packed once at load into the layout of the set; layout_id names it (part of cache
// keys on disk).
//
// Shapes are row-major, outermost first; strides are in elements unless the name says bytes. Rows
// are the ragged rows of all sequences of a step together. Activations are float32 between kernels.
//
// Thread rule: one step at a time (the ThreadPool belongs to one runner); packed weights are
// immutable.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/thread_pool.h"
#include "tensor/aligned_buffer.h"
#include "tensor/dtype.h"

namespace coxswain::kernels {

using base::ThreadPool;
using tensor::DType;

enum class Isa : std::uint8_t { kScalar, kAvx2, kAvx512, kAmx };
inline constexpr std::size_t kIsaCount = 4;
std::string_view name_of(Isa isa);  // "scalar", "avx2", "avx512", "amx"

// How a weight matrix is held and multiplied.
//   kF32:  float32 weights, float32 multiply-add.
//   kBf16: bfloat16 weights; activations rounded to bfloat16 where the set has a bf16 dot product,
//   float32 otherwise. kF16:  float16 weights widened to float32. kInt8: int8 weights with one
//   float32 scale per output; activations quantised per row (symmetric, absmax / 127).
enum class WeightType : std::uint8_t { kF32, kBf16, kF16, kInt8 };
inline constexpr std::size_t kWeightTypeCount = 4;
std::string_view name_of(WeightType type);

// Inputs of an int8 output: above this its sum of products, each at most 127 * 127, could leave 32
// bits.
inline constexpr std::size_t kInt8InputsMax = 0x7FFFFFFF / (127 * 127);

// A weight matrix [n, k] (n outputs, k inputs) in the layout of one kernel set.
struct PackedMatrix {
  WeightType type = WeightType::kF32;
  std::uint32_t layout_id = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  tensor::AlignedBuffer data;
  std::vector<float> scales;              // [n], kInt8 only
  std::vector<std::int32_t> column_sums;  // [n], kInt8 only: sum over k of the int8 weights
};

// Source of a pack: rows [row_begin, row_begin + n_rows) of the packed matrix come from `data`
// [n_rows, k] of `type` (kF32, kBf16 or kF16), contiguous. Several pieces stack along n (fused q,
// k, v; gate and up).
struct PackSource {
  const std::byte* data = nullptr;
  DType type = DType::kF32;
  std::size_t n_rows = 0;
};

// y[m, n] = x[m, k] * w^T (+ bias) (+ y, if accumulate)
struct LinearArgs {
  const PackedMatrix* w = nullptr;
  const float* x = nullptr;  // [m, k]
  std::size_t x_stride = 0;
  float* y = nullptr;  // [m, n]
  std::size_t y_stride = 0;
  std::size_t m = 0;
  const float* bias = nullptr;  // [n] or null
  bool accumulate = false;
  std::span<std::byte> scratch;  // at least linear_scratch_bytes(m, k), 64-byte aligned
};

// Scratch for the converted activations of a linear call with m rows of k inputs, any weight type
// and set.
std::size_t linear_scratch_bytes(std::size_t m, std::size_t k);

// Rows of one sequence in an attention call: consecutive positions starting at first_position.
struct AttentionSequence {
  std::size_t first_row = 0;
  std::size_t n_rows = 0;
  std::int32_t first_position = 0;
  std::span<const BlockId> blocks;  // covers positions [0, first_position + n_rows); kReleasedBlock
                                    // where no window reaches
};

// Positions are partitioned at multiples of this constant, a multiple of every allowed block size;
// partitions are merged in order.
inline constexpr std::int32_t kAttentionPartition = 256;

// The cache of one layer: block b starts at base + b * block_stride_bytes and holds keys
// [n_kv_heads, block_tokens, head_dim], values likewise in their own region.
struct KvLayerView {
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  std::size_t k_block_stride_bytes = 0;
  std::size_t v_block_stride_bytes = 0;
  DType type = DType::kF32;  // kF32, kBf16 or kF16
  std::size_t n_kv_heads = 0;
  std::size_t block_tokens = 0;
  std::size_t k_head_dim = 0;
  std::size_t v_head_dim = 0;
};

// Stores keys and values of the step's rows. Attention always reads them back as stored.
struct KvWriteArgs {
  KvLayerView cache;
  const float* k = nullptr;  // [rows, n_kv_heads, k_head_dim]
  std::size_t k_stride = 0;
  const float* v = nullptr;  // [rows, n_kv_heads, v_head_dim]
  std::size_t v_stride = 0;
  std::span<const AttentionSequence> sequences;
};

// out[row, h] = sum_p softmax_p(score(q[row, h], k[p])) v[p], p over the visible positions of the
// row's sequence. score = scale * q.k (then soft_cap * tanh(score / soft_cap)) (+ alibi_slopes[h] *
// p).
struct AttentionArgs {
  KvLayerView cache;
  const float* q = nullptr;  // [rows, n_heads, k_head_dim]
  std::size_t q_stride = 0;
  float* out = nullptr;  // [rows, n_heads, v_head_dim]
  std::size_t out_stride = 0;
  std::size_t n_heads = 0;
  float scale = 1.0F;
  float soft_cap = 0.0F;                // 0 = off
  std::int32_t window = 0;              // 0 = all; w: positions (p_row - w, p_row] are visible
  const float* sinks = nullptr;         // [n_heads] extra logit in the denominator, or null
  const float* alibi_slopes = nullptr;  // [n_heads] or null
  std::span<const AttentionSequence> sequences;
  std::span<std::byte> scratch;  // at least attention_scratch_bytes(...), 64-byte aligned
};

std::size_t attention_scratch_bytes(std::size_t n_threads,
                                    std::size_t n_heads,
                                    std::size_t head_dim_max);

struct NormArgs {
  const float* x = nullptr;  // [m, n]
  std::size_t x_stride = 0;
  float* y = nullptr;  // [m, n]; may be x
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  const float* weight = nullptr;  // [n] or null (no scaling)
  const float* bias = nullptr;    // [n] or null
  float epsilon = 1e-5F;
  float weight_offset = 0.0F;  // 1 for families that store weight - 1
  // Rows hold `groups` vectors of n side by side (per-head norms); weight is shared by the groups
  // unless weight_per_group.
  std::size_t groups = 1;
  bool weight_per_group = false;
};

enum class RopeStyle : std::uint8_t {
  kHalves,
  kInterleaved
};  // pairs (i, i + d/2), or (2i, 2i + 1)

// Turns the first rotary_dim values of every head. Tables hold the angles of the positions of each
// row (attention factor included).
struct RopeArgs {
  float* x = nullptr;  // [m, n_heads, head_dim], in place
  std::size_t x_stride = 0;
  std::size_t m = 0;
  std::size_t n_heads = 0;
  std::size_t head_dim = 0;
  std::size_t rotary_dim = 0;
  const float* cos = nullptr;  // [m, rotary_dim / 2]
  const float* sin = nullptr;  // [m, rotary_dim / 2]
  RopeStyle style = RopeStyle::kHalves;
};

enum class Activation : std::uint8_t {
  kSilu,
  kGeluErf,
  kGeluTanh,
  kRelu,
  kReluSquared,
  kGeluQuick
};

// y = act(gate) * up, or y = act(gate) when up is null.
struct ActivationArgs {
  const float* gate = nullptr;  // [m, n]
  std::size_t gate_stride = 0;
  const float* up = nullptr;  // [m, n] or null
  std::size_t up_stride = 0;
  float* y = nullptr;  // [m, n]; may be gate
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  Activation activation = Activation::kSilu;
};

// y = a * alpha + y * beta, element by element over [m, n].
struct AddArgs {
  const float* a = nullptr;
  std::size_t a_stride = 0;
  float* y = nullptr;
  std::size_t y_stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  float alpha = 1.0F;
  float beta = 1.0F;
};

struct KernelTable {
  std::string_view
      id;  // the set and its revision, e.g. "avx512-vnni-bf16-2"; part of kernel_set_id
  Isa isa = Isa::kScalar;

  // By weight type.
  void (*linear[kWeightTypeCount])(ThreadPool&, const LinearArgs&) = {};
  // Bytes of PackedMatrix::data for [n, k].
  std::size_t (*packed_bytes[kWeightTypeCount])(std::size_t n, std::size_t k) = {};
  // Fills data (allocated by pack_matrix), scales and column_sums for rows [row_begin, row_begin +
  // source.n_rows).
  void (*pack[kWeightTypeCount])(PackedMatrix&, std::size_t row_begin, const PackSource&) = {};
  // Reads row `row` of a packed matrix back, widened (int8: scale times integer): a tied embedding
  // needs no copy of its own.
  void (*unpack_row[kWeightTypeCount])(const PackedMatrix&, std::size_t row, float* out) = {};
  std::uint32_t layout_id[kWeightTypeCount] = {};

  void (*kv_write)(ThreadPool&, const KvWriteArgs&) = nullptr;
  void (*attention)(ThreadPool&, const AttentionArgs&) = nullptr;
  void (*rms_norm)(ThreadPool&, const NormArgs&) = nullptr;
  void (*layer_norm)(ThreadPool&, const NormArgs&) = nullptr;
  void (*rope)(ThreadPool&, const RopeArgs&) = nullptr;
  void (*activation)(ThreadPool&, const ActivationArgs&) = nullptr;
  void (*add)(ThreadPool&, const AddArgs&) = nullptr;
};

// Sets this CPU (and its kernel, for AMX) can run, lowest first; always contains kScalar.
std::vector<Isa> available_isas();

// Errors: kInvalidArgument if `isa` cannot run here. The table lives as long as the process.
Result<const KernelTable*> kernel_table(Isa isa);

// `forced` empty: the highest available set. Errors: kInvalidArgument naming the sets that can run.
Result<const KernelTable*> select_kernels(std::string_view forced);

// Packs stacked pieces into one matrix. Errors: kResourceExhausted.
Result<PackedMatrix> pack_matrix(const KernelTable& table,
                                 WeightType type,
                                 std::size_t k,
                                 std::span<const PackSource> pieces);

}  // namespace coxswain::kernels
