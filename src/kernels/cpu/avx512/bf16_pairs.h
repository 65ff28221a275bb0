#ifndef COXSWAIN_KERNELS_CPU_AVX512_BF16_PAIRS_H_
#define COXSWAIN_KERNELS_CPU_AVX512_BF16_PAIRS_H_
// How keys, values, queries and weights of a bf16 cache lie in pairs. Included inside an anonymous namespace of
// coxswain::kernels, after generic/attention.h.

inline __mmask32 halves_of(size_t n, size_t first) {
  if (n >= first + 32) return 0xFFFFFFFFU;
  return n > first ? (1U << (n - first)) - 1U : 0U;
}

inline __m256i round_bf16(__m512 value) {
  const __m256bh rounded = _mm512_cvtneps_pbh(value);
  __m256i bits;
  memcpy(&bits, &rounded, sizeof bits);
  return bits;
}

// A step is two values of a head, or two positions, the even one in the lower half.
struct PairsLayout {
  static constexpr size_t kStep = 2;

  static void put_query(float* dst, const float* x, size_t dk) {
    uint16_t* out = reinterpret_cast<uint16_t*>(dst);
    for (size_t i = 0; i < dk; i += 16) {
      const size_t n = lesser(dk - i, 16);
      const __m256i bits = round_bf16(Vec::load_n(x + i, n));
      _mm256_mask_storeu_epi16(out + i, Vec::first_n((n + 1) / 2 * 2), bits);
    }
  }

  // In place: a vector is read before its half is written.
  static void put_weights(float* scores, Visible visible) {
    uint16_t* out = reinterpret_cast<uint16_t*>(scores);
    for (size_t j = visible.begin / 16 * 16; j < visible.end; j += 16)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j), round_bf16(Vec::load(scores + j)));
  }

  static void put_stretch(const AttentionWork& w, const Stretch& s) {
    put_keys(w, s);
    put_values_of(w, s);
  }

  static void put_values_of(const AttentionWork& w, const Stretch& s) {
    const size_t dv = w.shape->v_head_dim;
    const uint16_t* v = reinterpret_cast<const uint16_t*>(s.v);
    size_t i = 0;
    if (s.begin % 2 != 0) put_value(w, s.begin + i++, v);
    for (; i + 2 <= s.count; i += 2) put_values(w, s.begin + i, v + i * dv);
    if (i < s.count) put_value(w, s.begin + i, v + i * dv);
  }

  // Positions j and j + 1, j even.
  static void put_values(const AttentionWork& w, size_t j, const uint16_t* v) {
    const size_t dv = w.shape->v_head_dim;
    float* row = w.s.values + j / 2 * w.dv_padded;
    size_t d = 0;
    for (; d + 32 <= dv; d += 32) {
      const Pairs pairs(_mm512_loadu_si512(v + d), _mm512_loadu_si512(v + dv + d));
      _mm512_storeu_si512(row + d, pairs.low);
      _mm512_storeu_si512(row + d + 16, pairs.high);
    }
    if (d == dv) return;
    const __mmask32 mask = halves_of(dv, d);
    const Pairs pairs(_mm512_maskz_loadu_epi16(mask, v + d),
                      _mm512_maskz_loadu_epi16(mask, v + dv + d));
    _mm512_storeu_si512(row + d, pairs.low);
    if (d + 16 < w.dv_padded) _mm512_storeu_si512(row + d + 16, pairs.high);
  }

 private:
  static void put_keys(const AttentionWork& w, const Stretch& s) {
    const uint16_t* k = reinterpret_cast<const uint16_t*>(s.k);
    const bool whole = s.count == 16 && w.dk % 32 == 0;
    for (size_t d = 0; d < w.dk; d += 32) {
      float* out = w.s.keys + d / 2 * kKeyStride + s.begin;
      Vec::Reg rows[16];
      if (whole) {
#pragma GCC unroll 16
        for (size_t j = 0; j < 16; ++j) rows[j] = _mm512_loadu_ps(k + j * w.dk + d);
        Vec::transpose(rows);
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; ++i) Vec::store(out + i * kKeyStride, rows[i]);
      } else {
        const __mmask32 mask = halves_of(w.dk, d);
#pragma GCC unroll 16
        for (size_t j = 0; j < 16; ++j) {
          rows[j] = j < s.count
                        ? _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, k + j * w.dk + d))
                        : Vec::zero();
        }
        Vec::transpose(rows);
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; ++i) {
          if (d / 2 + i < w.steps) Vec::store_n(out + i * kKeyStride, rows[i], s.count);
        }
      }
    }
  }

  // 32 values of two positions, side by side.
  struct Pairs {
    Pairs(__m512i even, __m512i odd) {
      const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      // i in both halves of lane i.
      const __m512i both = _mm512_or_si512(i, _mm512_slli_epi32(i, 16));
      const __m512i first = _mm512_add_epi32(_mm512_set1_epi32(0x00200000), both);
      const __m512i second = _mm512_add_epi32(_mm512_set1_epi32(0x00300010), both);
      low = _mm512_permutex2var_epi16(even, first, odd);
      high = _mm512_permutex2var_epi16(even, second, odd);
    }

    __m512i low;
    __m512i high;
  };

  // Position j alone; its neighbour's half stays as it is.
  static void put_value(const AttentionWork& w, size_t j, const uint16_t* v) {
    const size_t dv = w.shape->v_head_dim;
    uint16_t* row = reinterpret_cast<uint16_t*>(w.s.values + j / 2 * w.dv_padded);
    for (size_t d = 0; d < dv; d += 16) {
      const size_t n = lesser(dv - d, 16);
      const __m512i value = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(Vec::first_n(n), v + d));
      const __m512i placed = j % 2 != 0 ? _mm512_slli_epi32(value, 16) : value;
      _mm512_mask_storeu_epi16(row + 2 * d, j % 2 != 0 ? 0xAAAAAAAAU : 0x55555555U, placed);
    }
  }
};

#endif  // COXSWAIN_KERNELS_CPU_AVX512_BF16_PAIRS_H_
