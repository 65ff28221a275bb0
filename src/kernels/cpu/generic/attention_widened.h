#ifndef COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_WIDENED_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_WIDENED_H_
// Attention in float32 over a cache of any type: keys and values of a partition are widened into
// scratch, keys as [d][position], values as [position][d]. Included inside an anonymous namespace
// of coxswain::kernels, after generic/attention.h.

inline void widen_row(float* dst, const char* src, CacheType type, size_t n) {
  if (type == kCacheF32) {
    const float* p = reinterpret_cast<const float*>(src);
    for_vectors(n, [&](size_t i, size_t c) { Vec::store_n(dst + i, Vec::load_n(p + i, c), c); });
  } else if (type == kCacheBf16) {
    const uint16_t* p = reinterpret_cast<const uint16_t*>(src);
    for_vectors(n,
                [&](size_t i, size_t c) { Vec::store_n(dst + i, Vec::load_bf16_n(p + i, c), c); });
  } else {
    const uint16_t* p = reinterpret_cast<const uint16_t*>(src);
    for_vectors(n,
                [&](size_t i, size_t c) { Vec::store_n(dst + i, Vec::load_f16_n(p + i, c), c); });
  }
}

struct Widened {
  static constexpr size_t kStep = 1;
  static void put_query(float* dst, const float* x, size_t dk) {
    memcpy(dst, x, dk * sizeof(float));
  }
  static void put_weights(float*, Visible) {}
  static void dot(Vec::Reg& sum, Vec::Reg x, Vec::Reg y) { sum = Vec::fmadd(x, y, sum); }
  static Vec::Reg only(Vec::Reg value, int) { return value; }

  static void put_stretch(const AttentionWork& w, const Stretch& s) {
    const CacheType type = w.shape->type;
    const size_t dv = w.shape->v_head_dim;
    const size_t dv_bytes = dv * (type == kCacheF32 ? 4 : 2);
    Vec::transpose_16(w.s.keys + s.begin, kKeyStride, s.k, type, w.dk, s.count);
    for (size_t i = 0; i < s.count; ++i) {
      float* row = w.s.values + (s.begin + i) * w.dv_padded;
      widen_row(row, s.v + i * dv_bytes, type, dv);
      for (size_t d = dv; d < w.dv_padded; ++d) row[d] = 0.0F;
    }
  }
};

inline void attention(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  attention_over<Widened>(shape, task, scratch);
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_WIDENED_H_
