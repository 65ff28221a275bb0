#ifndef COXSWAIN_KERNELS_CPU_AVX512_LINEAR_H_
#define COXSWAIN_KERNELS_CPU_AVX512_LINEAR_H_
// What the linear kernels of AVX-512 share: 6 rows x 64 outputs in registers (24 accumulators, 4 of
// weights, 1 of activations). Included inside an anonymous namespace of coxswain::kernels, after
// <immintrin.h> and "kernels/cpu/ops.h".

constexpr int kPanel = 64;
constexpr int kVectors = 4;
constexpr int kRowTile = 6;
constexpr int kBlockBytes = 131072;  // of a panel, kept in the second-level cache

// The next block's bytes, at most 128 for each step; or those of this stream, when a panel is read once.
inline void prefetch_share(const char* p, size_t bytes) {
  _mm_prefetch(p, _MM_HINT_T1);
  _mm_prefetch(p + bytes / 2, _MM_HINT_T1);
}

inline void prefetch_stream(const char* w, size_t bytes, size_t ahead) {
  if (ahead == 0) return;
  for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(w + ahead + i, _MM_HINT_T0);
}

// Up to kRowTile rows times one panel. A `Math` says what a step of k is:
//   kStepValues, kValueBytes, kWeightBytes  values of k; bytes of an activation and of a weight
//   Sum, Weights, Activation                registers of 16 outputs, of their weights, of one row
//   zero, load, store, weights, broadcast   how they are filled
//   dot(sum, weights, activation)           the one instruction
// Each output is one chain of dot() over ascending k.
template <typename Math, int kRows, bool kStream>
inline void multiply(const TileArgs* t) {
  constexpr int kVectorBytes = 16 * Math::kStepValues * Math::kWeightBytes;
  constexpr size_t kStepBytes = size_t{kVectors} * kVectorBytes;
  typename Math::Sum sum[kRows][kVectors];
  char* acc = static_cast<char*>(t->acc);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = t->first ? Math::zero() : Math::load(acc + (r * kVectors + v) * 64);
  }
  const char* w = static_cast<const char*>(t->w);
  const char* a = static_cast<const char*>(t->a);
  const char* next = t->prefetch;
  for (size_t k = 0; k < t->k; k += Math::kStepValues) {
    if (kStream) {
      prefetch_stream(w, kStepBytes, t->prefetch_step);
    } else {
      prefetch_share(next, t->prefetch_step);
      next += t->prefetch_step;
    }
    typename Math::Weights weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) weights[v] = Math::weights(w + v * kVectorBytes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto x = Math::broadcast(a + static_cast<size_t>(r) * t->a_stride_bytes);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) Math::dot(sum[r][v], weights[v], x);
    }
    w += kStepBytes;
    a += Math::kStepValues * Math::kValueBytes;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Math::store(acc + (r * kVectors + v) * 64, sum[r][v]);
  }
}

template <typename Math, int kRows>
inline void run_rows(const TileArgs* t) {
  if constexpr (kRows > 0) {
    if (t->rows != kRows) return run_rows<Math, kRows - 1>(t);
    t->prefetch != nullptr ? multiply<Math, kRows, false>(t) : multiply<Math, kRows, true>(t);
  }
}

template <typename Math>
inline void run_tile(const TileArgs* t) {
  run_rows<Math, kRowTile>(t);
}

// Without what is the type's own: form, convert_row and finish.
template <typename Math>
inline LinearKernel kernel_of(uint32_t layout_id) {
  LinearKernel kernel{};
  kernel.layout_id = layout_id;
  kernel.panel = kPanel;
  kernel.unit_values = Math::kStepValues;
  kernel.unit_bytes = Math::kStepValues * Math::kWeightBytes;
  kernel.row_tile = kRowTile;
  kernel.k_block = kBlockBytes / (kPanel * Math::kWeightBytes);
  kernel.tile = run_tile<Math>;
  return kernel;
}

inline __mmask16 lanes_of(size_t n, size_t first) {
  if (n >= first + 16) return 0xFFFF;
  return n > first ? static_cast<__mmask16>((1U << (n - first)) - 1U) : static_cast<__mmask16>(0);
}

// y = value (+ bias) (+ y), in that order.
inline void put(const FinishArgs* f, size_t row, size_t column, __m512 value) {
  const __mmask16 lanes = lanes_of(f->n, column);
  float* y = f->y + row * f->y_stride + column;
  if (f->bias != nullptr)
    value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, f->bias + column));
  if (f->accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, y), value);
  _mm512_mask_storeu_ps(y, lanes, value);
}

// Sums of 16 outputs of a row, from a multiple of 16 on.
inline const char* sums_of(const FinishArgs* f, size_t row, size_t column) {
  const char* const acc = static_cast<const char*>(f->acc);
  if (!f->tiled) return acc + (row * f->panel + column) * 4;
  return acc + (row / 16 * f->panel + column) * 64 + row % 16 * 64;
}

// The highest magnitude; as bits, so that a NaN is above everything and makes the whole row NaN.
inline float absmax_of(const float* x, size_t k) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  __m512i highest = _mm512_setzero_si512();
  for (size_t i = 0; i < k; i += 16) {
    const __m512i bits = _mm512_maskz_loadu_epi32(lanes_of(k, i), x + i);
    highest = _mm512_max_epi32(highest, _mm512_and_si512(bits, magnitude));
  }
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(highest))));
}

// Values [first, first + 16) of a row as integers in [-127, 127].
inline __m512i quantised(const ConvertArgs& c, size_t first, __m512 inverse) {
  const __m512 value = _mm512_maskz_loadu_ps(lanes_of(c.k, first), c.x + first);
  return _mm512_cvtps_epi32(_mm512_mul_ps(value, inverse));
}

#endif  // COXSWAIN_KERNELS_CPU_AVX512_LINEAR_H_
