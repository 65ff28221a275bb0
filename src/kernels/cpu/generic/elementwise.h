#ifndef COXSWAIN_KERNELS_CPU_GENERIC_ELEMENTWISE_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_ELEMENTWISE_H_
// Norms, rope, activations, sums, look-ups and cache stores of one row, over a Vec of any set.
// Included inside an anonymous namespace of coxswain::kernels, after generic/math.h.

#include "kernels/cpu/generic/activate.h"

// Calls body(i, n) for every vector of [0, total): n lanes starting at i, n < kLanes only at the end.
template <typename Body>
inline void for_vectors(size_t total, Body body) {
  size_t i = 0;
  for (; i + Vec::kLanes <= total; i += Vec::kLanes) body(i, size_t{Vec::kLanes});
  if (i < total) body(i, total - i);
}

// y = (x - mean) * scale * (weight + offset) + bias
inline void scale_row(const NormRow* row, float mean, float scale) {
  const Vec::Reg m = Vec::set1(mean);
  const Vec::Reg s = Vec::set1(scale);
  const Vec::Reg offset = Vec::set1(row->weight_offset);
  for_vectors(row->n, [&](size_t i, size_t n) {
    Vec::Reg y = Vec::mul(Vec::sub(Vec::load_n(row->x + i, n), m), s);
    if (row->weight != nullptr) y = Vec::mul(y, Vec::add(Vec::load_n(row->weight + i, n), offset));
    if (row->bias != nullptr) y = Vec::add(y, Vec::load_n(row->bias + i, n));
    Vec::store_n(row->y + i, y, n);
  });
}

// Mean square of x - mean.
inline float mean_square(const NormRow* row, float mean) {
  const Vec::Reg m = Vec::set1(mean);
  Vec::Reg sum = Vec::zero();
  for_vectors(row->n, [&](size_t i, size_t n) {
    const Vec::Reg d = Vec::select(Vec::sub(Vec::load_n(row->x + i, n), m), Vec::zero(), 0, n);
    sum = Vec::fmadd(d, d, sum);
  });
  return Vec::sum(sum) / static_cast<float>(row->n);
}

inline void rms_norm(const NormRow* row) {
  scale_row(row, 0.0F, 1.0F / sqrtf(mean_square(row, 0.0F) + row->epsilon));
}

inline void layer_norm(const NormRow* row) {
  Vec::Reg sum = Vec::zero();
  for_vectors(row->n, [&](size_t i, size_t n) { sum = Vec::add(sum, Vec::load_n(row->x + i, n)); });
  const float mean = Vec::sum(sum) / static_cast<float>(row->n);
  scale_row(row, mean, 1.0F / sqrtf(mean_square(row, mean) + row->epsilon));
}

inline void rope(const RopeHead* head) {
  const size_t half = head->rotary_dim / 2;
  if (head->interleaved) {
    for (size_t i = 0; i < half; ++i) {
      const float a = head->x[2 * i];
      const float b = head->x[2 * i + 1];
      head->x[2 * i] = a * head->cos[i] - b * head->sin[i];
      head->x[2 * i + 1] = b * head->cos[i] + a * head->sin[i];
    }
    return;
  }
  for_vectors(half, [&](size_t i, size_t n) {
    float* x = head->x + i;
    const Vec::Reg a = Vec::load_n(x, n);
    const Vec::Reg b = Vec::load_n(x + half, n);
    const Vec::Reg c = Vec::load_n(head->cos + i, n);
    const Vec::Reg s = Vec::load_n(head->sin + i, n);
    Vec::store_n(x, Vec::sub(Vec::mul(a, c), Vec::mul(b, s)), n);
    Vec::store_n(x + half, Vec::add(Vec::mul(b, c), Vec::mul(a, s)), n);
  });
}

inline void activation(
    ActivationKind kind, const float* gate, const float* up, float* y, size_t total) {
  with_activation(kind, [&]<ActivationKind kKind>() {
    for_vectors(total, [&](size_t i, size_t n) {
      Vec::Reg out = activate<kKind>(Vec::load_n(gate + i, n));
      if (up != nullptr) out = Vec::mul(out, Vec::load_n(up + i, n));
      Vec::store_n(y + i, out, n);
    });
  });
}

inline void add(const float* a, float* y, size_t total, float alpha, float beta) {
  const Vec::Reg wa = Vec::set1(alpha);
  const Vec::Reg wy = Vec::set1(beta);
  for_vectors(total, [&](size_t i, size_t n) {
    const Vec::Reg scaled = Vec::mul(Vec::load_n(a + i, n), wa);
    Vec::store_n(y + i, Vec::add(scaled, Vec::mul(Vec::load_n(y + i, n), wy)), n);
  });
}

// One value in every lane: the same operations, so the same bits as within a row.
inline float sigmoid(float x) {
  float lanes[Vec::kLanes];
  Vec::store(lanes, sigmoid_of(Vec::set1(x)));
  return lanes[0];
}

inline void clamped_swiglu(const SwigluRow* row) {
  const Vec::Reg one = Vec::set1(1.0F);
  const Vec::Reg high = Vec::set1(row->limit);
  const Vec::Reg low = Vec::set1(-row->limit);
  const Vec::Reg minus_alpha = Vec::set1(-row->alpha);
  for_vectors(row->n, [&](size_t i, size_t n) {
    const Vec::Reg gate = Vec::min(high, Vec::load_n(row->gate + i, n));
    const Vec::Reg up = Vec::min(high, Vec::max(low, Vec::load_n(row->up + i, n)));
    const Vec::Reg swish = Vec::div(gate, Vec::add(one, exp_of(Vec::mul(minus_alpha, gate))));
    Vec::store_n(row->y + i, Vec::mul(Vec::add(up, one), swish), n);
  });
}

inline void clip(float* x, size_t total, float limit) {
  const Vec::Reg high = Vec::set1(limit);
  const Vec::Reg low = Vec::set1(-limit);
  for_vectors(total, [&](size_t i, size_t n) {
    Vec::store_n(x + i, Vec::min(high, Vec::max(low, Vec::load_n(x + i, n))), n);
  });
}

inline void soft_cap(float* x, size_t total, float scale, float cap) {
  const Vec::Reg factor = Vec::set1(scale);
  const Vec::Reg limit = Vec::set1(cap);
  for_vectors(total, [&](size_t i, size_t n) {
    Vec::Reg value = Vec::mul(Vec::load_n(x + i, n), factor);
    if (cap != 0.0F) value = Vec::mul(limit, accurate_tanh_of(Vec::div(value, limit)));
    Vec::store_n(x + i, value, n);
  });
}

inline void softmax(float* x, size_t total) {
  const Vec::Reg lowest = Vec::set1(-INFINITY);
  Vec::Reg highest = lowest;
  for_vectors(total, [&](size_t i, size_t n) {
    highest = Vec::max(highest, Vec::select(Vec::load_n(x + i, n), lowest, 0, n));
  });
  const Vec::Reg top = Vec::set1(Vec::highest(highest));
  Vec::Reg sum = Vec::zero();
  for_vectors(total, [&](size_t i, size_t n) {
    const Vec::Reg e = exp_of(Vec::sub(Vec::load_n(x + i, n), top));
    Vec::store_n(x + i, e, n);
    sum = Vec::add(sum, Vec::select(e, Vec::zero(), 0, n));
  });
  const Vec::Reg all = Vec::set1(Vec::sum(sum));
  for_vectors(total, [&](size_t i, size_t n) {
    Vec::store_n(x + i, Vec::div(Vec::load_n(x + i, n), all), n);
  });
}

inline void load_row(
    float* y, const void* row, CacheType type, size_t total, float scale, bool accumulate) {
  const Vec::Reg factor = Vec::set1(scale);
  for_vectors(total, [&](size_t i, size_t n) {
    Vec::Reg value = Vec::mul(Vec::load_cache_n(row, type, i, n), factor);
    if (accumulate) value = Vec::add(value, Vec::load_n(y + i, n));
    Vec::store_n(y + i, value, n);
  });
}

inline void combine(const CombineRow* row) {
  for_vectors(row->n, [&](size_t i, size_t n) {
    Vec::Reg sum = row->accumulate ? Vec::load_n(row->y + i, n) : Vec::zero();
    for (size_t j = 0; j < row->n_used; ++j) {
      const Vec::Reg x = Vec::load_n(row->x + row->slots[j] * row->x_stride + i, n);
      sum = Vec::add(sum, Vec::mul(Vec::set1(row->weights[j]), x));
    }
    Vec::store_n(row->y + i, sum, n);
  });
}

// A float of 8 bits: kMantissa bits behind the point, kBias off the exponent, kGreatest the greatest finite number.
template <int kMantissa, int kBias, uint32_t kGreatest>
inline uint8_t to_f8(float x) {
  constexpr int kShift = 23 - kMantissa;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;
  uint32_t bits = 0;
  memcpy(&bits, &x, 4);
  const uint32_t sign = bits >> 24 & 0x80U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint8_t>(sign | 0x7FU);
  if (magnitude >= (kGreatest << kShift) + kRebias) return static_cast<uint8_t>(sign | kGreatest);
  if (magnitude >= kRebias + (1U << 23)) {
    const uint32_t odd = magnitude >> kShift & 1U;
    return static_cast<uint8_t>(sign |
                                ((magnitude - kRebias + (1U << (kShift - 1)) - 1 + odd) >> kShift));
  }
  // Subnormal: the last bit of a float near this power of two is the least subnormal.
  constexpr uint32_t kNear = static_cast<uint32_t>(127 + 23 + 1 - kBias - kMantissa) << 23;
  float near = 0.0F;
  float value = 0.0F;
  memcpy(&near, &kNear, 4);
  memcpy(&value, &magnitude, 4);
  value += near;
  memcpy(&bits, &value, 4);
  return static_cast<uint8_t>(sign | (bits - kNear));
}

// n <= 64 codes of 4 bits, two in a byte.
inline void pack_codes(uint8_t* to, const uint8_t* codes, size_t n) {
  const size_t half = (n + 1) / 2;
  for (size_t i = 0; i < half; ++i) {
    const uint32_t upper = half + i < n ? codes[half + i] : 0U;
    to[i] = static_cast<uint8_t>(codes[i] | upper << 4);
  }
}

// attention_args.h says what becomes of a vector. Rounds to nearest even.
inline void store_codes(
    uint8_t* codes, CacheType type, float* scale, float* zero, const float* x, size_t total) {
  const float greatest = type == kCacheU4 ? 15.0F : 255.0F;
  Vec::Reg highest = Vec::set1(-INFINITY);
  Vec::Reg negated = highest;     // the least, with the other sign
  Vec::Reg broken = Vec::zero();  // NaN where a value is no number
  for_vectors(total, [&](size_t i, size_t n) {
    const Vec::Reg value = Vec::load_n(x + i, n);
    broken = Vec::fmadd(value, Vec::zero(), broken);
    highest = Vec::max(highest, Vec::select(value, highest, 0, n));
    negated = Vec::max(negated, Vec::select(Vec::sub(Vec::zero(), value), negated, 0, n));
  });
  // Added zeros: the sign of a zero would hang on the order.
  const float top = Vec::highest(highest) + 0.0F;
  const float least = 0.0F - Vec::highest(negated) + 0.0F;
  if (!is_number(Vec::sum(broken))) {
    *scale = *zero = NAN;
    memset(codes, 0, vector_bytes(type, total));
    return;
  }
  *zero = least;
  *scale = top / greatest - least / greatest;
  const float inverse = 1.0F / *scale;
  if (!is_number(inverse)) {
    *scale = 0.0F;
    memset(codes, 0, vector_bytes(type, total));
    return;
  }
  const Vec::Reg begin = Vec::set1(least);
  const Vec::Reg factor = Vec::set1(inverse);
  const Vec::Reg last = Vec::set1(greatest);
  for (size_t d = 0; d < total; d += 64) {
    const size_t width = total - d < 64 ? total - d : 64;
    uint8_t some[64];
    for_vectors(width, [&](size_t i, size_t n) {
      const Vec::Reg steps = Vec::mul(Vec::sub(Vec::load_n(x + d + i, n), begin), factor);
      float lanes[Vec::kLanes];
      Vec::store(lanes, Vec::round(Vec::max(Vec::min(steps, last), Vec::zero())));
      for (size_t lane = 0; lane < n; ++lane)
        some[i + lane] = static_cast<uint8_t>(static_cast<int32_t>(lanes[lane]));
    });
    if (type == kCacheU4) {
      pack_codes(codes + d / 2, some, width);
    } else {
      memcpy(codes + d, some, width);
    }
  }
}

// Of types without codes.
inline void store_row(void* dst, CacheType type, const float* x, size_t total) {
  if (type == kCacheF32) {
    memcpy(dst, x, total * sizeof(float));
    return;
  }
  if (value_bytes(type) == 1) {
    uint8_t* bytes = static_cast<uint8_t*>(dst);
    for (size_t i = 0; i < total; ++i)
      bytes[i] = type == kCacheE4M3 ? to_f8<3, 7, 0x7E>(x[i]) : to_f8<2, 15, 0x7B>(x[i]);
    return;
  }
  uint16_t* out = static_cast<uint16_t*>(dst);
  for_vectors(total, [&](size_t i, size_t n) {
    const Vec::Reg value = Vec::load_n(x + i, n);
    if (type == kCacheBf16) {
      Vec::store_bf16_n(out + i, value, n);
    } else {
      Vec::store_f16_n(out + i, value, n);
    }
  });
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_ELEMENTWISE_H_
