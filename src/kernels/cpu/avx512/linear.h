#ifndef COXSWAIN_KERNELS_CPU_AVX512_LINEAR_H_
#define COXSWAIN_KERNELS_CPU_AVX512_LINEAR_H_
// What the linear kernels of AVX-512 share: 6 rows x 64 outputs in registers (24 accumulators, 4 of
// weights, 1 of activations). Included inside an anonymous namespace of coxswain::kernels, after
// <immintrin.h>.

constexpr int kPanel = 64;
constexpr int kVectors = 4;
constexpr int kRowTile = 6;

// The next block's bytes, at most 128 for each step; or those of this stream, when a panel is read
// once.
inline void prefetch_share(const char* p, size_t bytes) {
  _mm_prefetch(p, _MM_HINT_T1);
  _mm_prefetch(p + bytes / 2, _MM_HINT_T1);
}

inline void prefetch_stream(const char* w, size_t bytes, size_t ahead) {
  if (ahead == 0) return;
  for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(w + ahead + i, _MM_HINT_T0);
}

// Runs `Tile<rows>::run`.
template <template <int> class Tile, int kRows>
inline void dispatch_rows(const TileArgs* t) {
  if constexpr (kRows > 0) {
    if (t->rows == kRows) return Tile<kRows>::run(t);
    dispatch_rows<Tile, kRows - 1>(t);
  }
}

template <template <int> class Tile>
inline void run_tile(const TileArgs* t) {
  dispatch_rows<Tile, kRowTile>(t);
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

inline void finish_f32(const FinishArgs* f) {
  for (size_t r = 0; r < f->rows; ++r) {
    const float* acc = static_cast<const float*>(f->acc) + r * kPanel;
    for (size_t j = 0; j < f->n; j += 16) put(f, r, j, _mm512_load_ps(acc + j));
  }
}

#endif  // COXSWAIN_KERNELS_CPU_AVX512_LINEAR_H_
