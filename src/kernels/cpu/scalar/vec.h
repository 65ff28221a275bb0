#ifndef COXSWAIN_KERNELS_CPU_SCALAR_VEC_H_
#define COXSWAIN_KERNELS_CPU_SCALAR_VEC_H_
// Vec of one lane: the meaning of every operation that cpu/generic/*.h uses, in plain C++.
// Included inside an anonymous namespace of coxswain::kernels, after <math.h> and <string.h>.

struct Vec {
  using Reg = float;
  static constexpr size_t kLanes = 1;
  static constexpr int kScoreVectors = 4;
  static constexpr int kTileRows = 4;

  static Reg zero() { return 0.0F; }
  static Reg set1(float value) { return value; }
  static Reg load(const float* p) { return *p; }
  static void store(float* p, Reg a) { *p = a; }
  // The first n lanes; the others are zero, or not stored. n <= kLanes.
  static Reg load_n(const float* p, size_t n) { return n != 0 ? *p : 0.0F; }
  static void store_n(float* p, Reg a, size_t n) {
    if (n != 0) *p = a;
  }
  // Lanes [begin, end) of a, the others from b.
  static Reg select(Reg a, Reg b, size_t begin, size_t end) {
    return begin == 0 && end != 0 ? a : b;
  }
  static Reg add(Reg a, Reg b) { return a + b; }
  static Reg sub(Reg a, Reg b) { return a - b; }
  static Reg mul(Reg a, Reg b) { return a * b; }
  static Reg div(Reg a, Reg b) { return a / b; }
  // a * b + c; fused where the set has it.
  static Reg fmadd(Reg a, Reg b, Reg c) { return a * b + c; }
  // A NaN in b stays.
  static Reg max(Reg a, Reg b) { return a > b ? a : b; }
  static Reg min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg round(Reg a) { return nearbyintf(a); }
  // 2^a for whole a in [-126, 127].
  static Reg pow2(Reg a) {
    const uint32_t bits =
        a == a ? static_cast<uint32_t>(static_cast<int32_t>(a) + 127) << 23 : 0x7FC00000U;
    float out = 0.0F;
    memcpy(&out, &bits, 4);
    return out;
  }
  // a < b ? c : d
  static Reg if_less(Reg a, Reg b, Reg c, Reg d) { return a < b ? c : d; }
  // 0, 1, 2, ...
  static Reg iota() { return 0.0F; }
  static float sum(Reg a) { return a; }
  static float highest(Reg a) { return a; }

  static Reg load_bf16_n(const uint16_t* p, size_t n) {
    if (n == 0) return 0.0F;
    const uint32_t bits = static_cast<uint32_t>(*p) << 16;
    float out = 0.0F;
    memcpy(&out, &bits, 4);
    return out;
  }
  static Reg load_f16_n(const uint16_t* p, size_t n) {
    if (n == 0) return 0.0F;
    const uint32_t magnitude = static_cast<uint32_t>(*p & 0x7FFFU) << 13;
    float out = 0.0F;
    memcpy(&out, &magnitude, 4);
    out *= 0x1p112F;
    uint32_t bits = 0;
    memcpy(&bits, &out, 4);
    if ((*p & 0x7C00U) == 0x7C00U) bits = 0x7F800000U | magnitude;
    bits |= static_cast<uint32_t>(*p & 0x8000U) << 16;
    memcpy(&out, &bits, 4);
    return out;
  }
  static void store_bf16_n(uint16_t* p, Reg a, size_t n) {
    if (n == 0) return;
    uint32_t bits = 0;
    memcpy(&bits, &a, 4);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
      *p = static_cast<uint16_t>((bits >> 16) | 0x40U);
    } else {
      *p = static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
    }
  }
  // Round to nearest even, by adding a power of two that leaves the wanted bits.
  static void store_f16_n(uint16_t* p, Reg a, size_t n) {
    if (n == 0) return;
    uint32_t bits = 0;
    memcpy(&bits, &a, 4);
    const uint32_t sign = (bits >> 16) & 0x8000U;
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    uint32_t half = 0;
    if (magnitude > 0x7F800000U) {
      half = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
    } else if (magnitude >= 0x477FF000U) {
      half = 0x7C00U;
    } else if (magnitude >= 0x38800000U) {
      half = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
    } else {
      float value = 0.0F;
      memcpy(&value, &magnitude, 4);
      value += 0.5F;  // the last bit of a float near 0.5 is the least subnormal
      memcpy(&half, &value, 4);
      half -= 0x3F000000U;
    }
    *p = static_cast<uint16_t>(sign | half);
  }

  static Reg load_u8_n(const uint8_t* p, size_t n) {
    return n != 0 ? static_cast<float>(*p) : 0.0F;
  }
  // Floats of 8 bits as float16: e5m2 is its upper half.
  static Reg load_e5m2_n(const uint8_t* p, size_t n) {
    if (n == 0) return 0.0F;
    const uint16_t half = static_cast<uint16_t>(*p << 8);
    return load_f16_n(&half, 1);
  }
  static Reg load_e4m3_n(const uint8_t* p, size_t n) {
    if (n == 0) return 0.0F;
    const uint16_t half = static_cast<uint16_t>((*p & 0x80U) << 8 | (*p & 0x7FU) << 7);
    return (*p & 0x7FU) == 0x7FU ? NAN : load_f16_n(&half, 1) * 256.0F;
  }
  // Of kCacheU8 the codes; of kCacheU4 nothing.
  static Reg load_cache_n(const void* src, CacheType type, size_t at, size_t n) {
    const uint8_t* const bytes = static_cast<const uint8_t*>(src) + at * value_bytes(type);
    const uint16_t* const halves = static_cast<const uint16_t*>(src) + at;
    switch (type) {
      case kCacheBf16:
        return load_bf16_n(halves, n);
      case kCacheF16:
        return load_f16_n(halves, n);
      case kCacheU8:
        return load_u8_n(bytes, n);
      case kCacheE4M3:
        return load_e4m3_n(bytes, n);
      case kCacheE5M2:
        return load_e5m2_n(bytes, n);
      case kCacheF32:
      case kCacheU4:  // not here: generic/attention.h unpacks them
        break;
    }
    return load_n(static_cast<const float*>(src) + at, n);
  }

  // dst[d * ld + j] = element d of the vector j, for j < n (n <= 16) and d < dim. src holds n
  // vectors of dim values.
  static void transpose_16(
      float* dst, size_t ld, const void* src, CacheType type, size_t dim, size_t n) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t d = 0; d < dim; ++d) dst[d * ld + j] = load_cache_n(src, type, j * dim + d, 1);
    }
  }
};

#endif  // COXSWAIN_KERNELS_CPU_SCALAR_VEC_H_
