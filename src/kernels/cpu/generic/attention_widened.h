#ifndef COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_WIDENED_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_WIDENED_H_
// Attention in float32 over a cache of any type: keys and values of a partition are widened into scratch, keys as
// [d][position], values as [position][d]. Included inside an anonymous namespace of coxswain::kernels, after
// generic/attention.h, of which it is a Cache.

struct Widened : FloatTiles<Widened> {
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
    const size_t dv_bytes = vector_bytes(type, dv);
    if (type == kCacheU4) {
      put_packed_keys(w, s);
    } else {
      Vec::transpose_16(w.s.keys + s.begin, kKeyStride, s.k, type, w.dk, s.count);
    }
    if (has_codes(type)) scale_keys(w, s);
    for (size_t i = 0; i < s.count; ++i) {
      float* row = w.s.values + (s.begin + i) * w.dv_padded;
      const char* from = s.v + i * dv_bytes;
      if (has_codes(type)) {
        put_codes(w, s, i, row, from);
      } else {
        for_vectors(dv, [&](size_t d, size_t n) {
          Vec::store_n(row + d, Vec::load_cache_n(from, type, d, n), n);
        });
      }
      for (size_t d = dv; d < w.dv_padded; ++d) row[d] = 0.0F;
    }
  }

 private:
  static float float_at(const char* floats, size_t i) {
    float out = 0.0F;
    memcpy(&out, floats + i * sizeof(float), sizeof out);
    return out;
  }

  // The values of one position.
  static void put_codes(
      const AttentionWork& w, const Stretch& s, size_t i, float* row, const char* from) {
    const Vec::Reg scale = Vec::set1(float_at(s.v_scales, i));
    const Vec::Reg zero = Vec::set1(float_at(s.v_scales, w.shape->block_tokens + i));
    const size_t dv = w.shape->v_head_dim;
    for (size_t begin = 0; begin < dv; begin += 64) {
      const size_t width = lesser(dv - begin, 64);
      uint8_t unpacked[64];
      const void* codes = from + begin;
      if (w.shape->type == kCacheU4) {
        unpack_codes(unpacked, from, begin, width);
        codes = unpacked;
      }
      for_vectors(width, [&](size_t d, size_t n) {
        const Vec::Reg code = Vec::load_cache_n(codes, kCacheU8, d, n);
        Vec::store_n(row + begin + d, Vec::fmadd(code, scale, zero), n);
      });
    }
  }

  static void put_packed_keys(const AttentionWork& w, const Stretch& s) {
    const size_t bytes = vector_bytes(kCacheU4, w.dk);
    for (size_t d = 0; d < w.dk; d += 64) {
      const size_t width = lesser(w.dk - d, 64);
      uint8_t codes[17 * 64];  // an odd width writes a byte beyond its own
      for (size_t i = 0; i < s.count; ++i)
        unpack_codes(codes + i * width, s.k + i * bytes, d, width);
      Vec::transpose_16(
          w.s.keys + d * kKeyStride + s.begin, kKeyStride, codes, kCacheU8, width, s.count);
    }
  }

  // Codes of keys to what they stand for.
  static void scale_keys(const AttentionWork& w, const Stretch& s) {
    float scales[16];
    float zeros[16];
    memcpy(scales, s.k_scales, s.count * sizeof(float));
    memcpy(zeros, s.k_scales + w.shape->block_tokens * sizeof(float), s.count * sizeof(float));
    for (size_t d = 0; d < w.dk; ++d) {
      float* keys = w.s.keys + d * kKeyStride + s.begin;
      for_vectors(s.count, [&](size_t i, size_t n) {
        const Vec::Reg code = Vec::load_n(keys + i, n);
        const Vec::Reg scale = Vec::load_n(scales + i, n);
        Vec::store_n(keys + i, Vec::fmadd(code, scale, Vec::load_n(zeros + i, n)), n);
      });
    }
  }
};

inline void attention(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  attention_over<Widened>(shape, task, scratch);
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_ATTENTION_WIDENED_H_
