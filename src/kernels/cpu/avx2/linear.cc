// Linear kernels with AVX2, FMA and F16C: 6 rows x 16 outputs in registers (12 accumulators, 2 of
// weights, 1 of activations), and for the few rows of a decode step 32 outputs, because a chain of
// multiply-adds waits four cycles for each step: fewer chains could not keep up with memory. f32,
// f16 and bf16 weights are widened and multiplied in float32, one fused multiply-add per product.
// int8 weights and activations are widened to 16 bits and multiplied in pairs (vpmaddwd), which is
// exact; vpmaddubsw would saturate.

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx2/linear.h"

constexpr int kRowTile = 6;
constexpr int kWideRows = 2;  // that take all vectors of a panel at once
// Steps of k after which the other half of the panel has its turn: few enough that the second half
// finds a stream in the first-level cache, or more for many rows, whose block lies in the second.
constexpr size_t kStreamPieceSteps = 128;
constexpr size_t kBlockPieceSteps = 512;
constexpr size_t kStreamAhead = 8192;  // bytes ahead of a stream of weights that are asked for

// What a tile multiplies: weights as loaded from a step of the panel, activations of one step of a row.
struct FloatMath {
  using Reg = __m256;
  static constexpr size_t kActivationBytes = 4;
  static constexpr size_t kStepValues = 1;
  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg load_acc(const char* p) { return _mm256_load_ps(reinterpret_cast<const float*>(p)); }
  static void store_acc(char* p, Reg a) { _mm256_store_ps(reinterpret_cast<float*>(p), a); }
  static Reg activation(const char* p) {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(p));
  }
  static Reg multiply_add(Reg x, Reg weights, Reg sum) { return _mm256_fmadd_ps(x, weights, sum); }
};

struct F32 : FloatMath {
  static constexpr size_t kBytes = 4;
  static Reg weights(const char* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
};

struct Bf16 : FloatMath {
  static constexpr size_t kBytes = 2;
  static Reg weights(const char* p) {
    const __m256i wide =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
};

struct F16 : FloatMath {
  static constexpr size_t kBytes = 2;
  static Reg weights(const char* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
};

struct Int8 {
  using Reg = __m256i;
  static constexpr size_t kBytes = 1;
  static constexpr size_t kActivationBytes = 4;  // two of 16 bits
  static constexpr size_t kStepValues = 2;
  static Reg zero() { return _mm256_setzero_si256(); }
  static Reg load_acc(const char* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store_acc(char* p, Reg a) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), a); }
  static Reg activation(const char* p) {
    return _mm256_set1_epi32(*reinterpret_cast<const int*>(p));
  }
  static Reg weights(const char* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Reg multiply_add(Reg x, Reg weights, Reg sum) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, weights));
  }
};

// A range of steps of k within a tile, and the vectors of the panel that are worked on.
struct Piece {
  size_t begin;  // of k
  size_t end;
  int vector;  // the first
};

// The bytes that are asked for meanwhile: of the next block, or of what follows in the stream. Each
// half of a panel asks for half of them, so that memory is never idle.
struct Share {
  const char* next;
  size_t per_step;
};

template <typename Math, int kVectors>
inline Share share_of(const TileArgs* t, const Piece& piece) {
  constexpr size_t kStepBytes = size_t{kPanelVectors} * 8 * Math::kBytes * Math::kStepValues;
  constexpr size_t kParts = kPanelVectors / kVectors;
  const bool stream = t->prefetch == nullptr;
  const size_t whole = stream ? kStepBytes : t->prefetch_step;
  const char* from = stream ? static_cast<const char*>(t->w) + kStreamAhead : t->prefetch;
  const size_t begin = piece.begin / Math::kStepValues * whole;
  const size_t bytes = (piece.end - piece.begin) / Math::kStepValues * whole;
  const size_t part = static_cast<size_t>(piece.vector / kVectors);
  return {from + begin + bytes / kParts * part, whole / kParts};
}

// Rows times kVectors vectors of the panel.
template <typename Math, int kRows, int kVectors>
inline void multiply(const TileArgs* t, const Piece& piece) {
  using Reg = typename Math::Reg;
  constexpr size_t kVectorBytes = 8 * Math::kBytes * Math::kStepValues;
  constexpr size_t kStepBytes = kPanelVectors * kVectorBytes;
  const bool first = t->first && piece.begin == 0;
  const size_t step = piece.begin / Math::kStepValues;
  Reg sum[kRows][kVectors];
  char* acc = static_cast<char*>(t->acc) + piece.vector * 32;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = first ? Math::zero() : Math::load_acc(acc + (r * kPanelVectors + v) * 32);
  }
  const char* w = static_cast<const char*>(t->w) + step * kStepBytes +
                  static_cast<size_t>(piece.vector) * kVectorBytes;
  const char* a = static_cast<const char*>(t->a) + step * Math::kActivationBytes;
  const Share share = share_of<Math, kVectors>(t, piece);
  const char* next = share.next;
  for (size_t k = piece.begin; k < piece.end; k += Math::kStepValues) {
    _mm_prefetch(next, _MM_HINT_T0);
    if (kVectors * kVectorBytes > 64) _mm_prefetch(next + 64, _MM_HINT_T0);
    next += share.per_step;
    Reg weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weights[v] = Math::weights(w + static_cast<size_t>(v) * kVectorBytes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Reg x = Math::activation(a + static_cast<size_t>(r) * t->a_stride_bytes);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Math::multiply_add(x, weights[v], sum[r][v]);
    }
    w += kStepBytes;
    a += Math::kActivationBytes;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      Math::store_acc(acc + (r * kPanelVectors + v) * 32, sum[r][v]);
  }
}

template <typename Math, int kRows>
inline void run_rows(const TileArgs* t) {
  if constexpr (kRows <= kWideRows) {
    multiply<Math, kRows, kPanelVectors>(t, {0, t->k, 0});
  } else {
    const size_t piece_values =
        (t->prefetch == nullptr ? kStreamPieceSteps : kBlockPieceSteps) * Math::kStepValues;
    for (size_t k = 0; k < t->k; k += piece_values) {
      const size_t end = k + piece_values < t->k ? k + piece_values : t->k;
      multiply<Math, kRows, kPanelVectors / 2>(t, {k, end, 0});
      multiply<Math, kRows, kPanelVectors / 2>(t, {k, end, kPanelVectors / 2});
    }
  }
}

template <typename Math, int kRows = kRowTile>
inline void tile(const TileArgs* t) {
  if (t->rows == kRows) return run_rows<Math, kRows>(t);
  if constexpr (kRows > 1) tile<Math, kRows - 1>(t);
}

void finish_f32(const FinishArgs* f) {
  for (size_t j = 0; j < f->n; j += 8) {
    const __m256i lanes = lanes_of(f->n, j);
    for (size_t r = 0; r < f->rows; ++r) {
      put(f, r, j, lanes, _mm256_load_ps(static_cast<const float*>(f->acc) + r * kPanel + j));
    }
  }
}

void finish_int8(const FinishArgs* f) {
  for (size_t j = 0; j < f->n; j += 8) {
    const __m256i lanes = lanes_of(f->n, j);
    const __m256 scales = _mm256_maskload_ps(f->scales + j, lanes);
    for (size_t r = 0; r < f->rows; ++r) {
      const int32_t* acc = static_cast<const int32_t*>(f->acc) + r * kPanel + j;
      const __m256 exact =
          _mm256_cvtepi32_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(acc)));
      put(f,
          r,
          j,
          lanes,
          _mm256_mul_ps(_mm256_mul_ps(exact, scales), _mm256_set1_ps(f->row_scales[r])));
    }
  }
}

// Quantises a row to 16 bits.
void convert_row(const ConvertArgs* args) {
  const ConvertArgs c = *args;
  int16_t* out = static_cast<int16_t*>(c.values);
  const float inverse = inverse_of(absmax_of(c.x, c.k), c.scale);
  if (inverse == 0.0F) {
    memset(out, 0, c.k_padded * sizeof(int16_t));
    return;
  }
  const __m256 factor = _mm256_set1_ps(inverse);
  for (size_t i = 0; i < c.k_padded; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), packed16(quantised(c, i, factor)));
}

template <typename Math>
LinearKernel kernel_of(uint32_t layout_id) {
  LinearKernel kernel{};
  kernel.layout_id = layout_id;
  kernel.panel = kPanel;
  kernel.unit_values = Math::kStepValues;
  kernel.k_multiple = Math::kStepValues;
  kernel.unit_bytes = Math::kStepValues * Math::kBytes;
  kernel.row_tile = kRowTile;
  kernel.k_block = 65536 / (kPanel * Math::kBytes);
  kernel.form = kActivationF32;
  kernel.tile = tile<Math>;
  kernel.finish = finish_f32;
  return kernel;
}

}  // namespace

void fill_avx2_linear(SetOps* ops) {
  ops->linear[kFormFloat32] = kernel_of<F32>(0x211);
  ops->linear[kFormBfloat16] = kernel_of<Bf16>(0x212);
  ops->linear[kFormFloat16] = kernel_of<F16>(0x213);
  ops->linear[kFormInt8] = kernel_of<Int8>(0x214);
  ops->linear[kFormInt8].k_multiple = 8;
  ops->linear[kFormInt8].form = kActivationS16;
  ops->linear[kFormInt8].convert_row = convert_row;
  ops->linear[kFormInt8].finish = finish_int8;
}

}  // namespace coxswain::kernels
