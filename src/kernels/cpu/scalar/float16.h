#ifndef COXSWAIN_KERNELS_CPU_SCALAR_FLOAT16_H_
#define COXSWAIN_KERNELS_CPU_SCALAR_FLOAT16_H_
// Included inside an anonymous namespace, after <stdint.h> and <string.h>.

// Exact for every finite value: the exponent is re-biased by a multiplication.
inline float widen_f16(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFFU) << 13;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  float value = 0.0F;
  memcpy(&value, &magnitude, 4);
  value *= 0x1p112F;
  uint32_t wide = 0;
  memcpy(&wide, &value, 4);
  if ((bits & 0x7C00U) == 0x7C00U) wide = 0x7F800000U | magnitude;
  wide |= sign;
  memcpy(&value, &wide, 4);
  return value;
}

#endif  // COXSWAIN_KERNELS_CPU_SCALAR_FLOAT16_H_
