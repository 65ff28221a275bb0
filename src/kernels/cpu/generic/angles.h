#ifndef COXSWAIN_KERNELS_CPU_GENERIC_ANGLES_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_ANGLES_H_
// Cosine and sine of rotary angles, in double precision and plain C++: the compiler makes vectors of the loop with each
// set's instructions. No operation is fused and none reads a table, so every set gives the same bits, and they do not
// come from the C library. Included inside an anonymous namespace of coxswain::kernels.

// x to the nearest whole number, |x| < 2^51: the last bit of a double near 1.5 * 2^52 is 1.
inline double nearest(double x) {
  constexpr double kShift = 0x1.8p52;
  return (x + kShift) - kShift;
}

// pi / 2 in three parts. The first two have 19 bits each, so that their products with n, up to 2^34, are exact.
constexpr double kHalfPi1 = 0x1.921f8p0;
constexpr double kHalfPi2 = 0x1.aa22p-19;
constexpr double kHalfPi3 = 0x1.68c234c4c6629p-39;

struct CosSin {
  double cos;
  double sin;
};

// Of a float32 angle, |angle| <= 2^34. n quarter turns are taken off and r, |r| <= pi / 4, is left, with an error
// below 2^-56; Taylor's series to r^15 and r^14 then err by less than 2^-48.
inline CosSin cos_sin(float angle) {
  const double x = static_cast<double>(angle);
  const double n = nearest(x * 0x1.45f306dc9c883p-1);
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double s = r * r;
  double odd = -1.0 / 1307674368000.0;
  odd = odd * s + 1.0 / 6227020800.0;
  odd = odd * s - 1.0 / 39916800.0;
  odd = odd * s + 1.0 / 362880.0;
  odd = odd * s - 1.0 / 5040.0;
  odd = odd * s + 1.0 / 120.0;
  odd = odd * s - 1.0 / 6.0;
  const double sin_r = r + r * s * odd;
  double even = -1.0 / 87178291200.0;
  even = even * s + 1.0 / 479001600.0;
  even = even * s - 1.0 / 3628800.0;
  even = even * s + 1.0 / 40320.0;
  even = even * s - 1.0 / 720.0;
  even = even * s + 1.0 / 24.0;
  even = even * s - 0.5;
  const double cos_r = 1.0 + s * even;
  // n = 2 half + rest; quarter turn 1 swaps the two, turns 2 and 3 change both signs.
  const double half = nearest(n * 0.5 - 0.25);
  const double rest = n - 2.0 * half;
  const double sign = 1.0 - 2.0 * (half - 2.0 * nearest(half * 0.5 - 0.25));
  const double a = rest != 0.0 ? -sin_r : cos_r;
  const double b = rest != 0.0 ? cos_r : sin_r;
  return {a * sign, b * sign};
}

inline void angles(const AngleRow* row) {
  const float position = row->position;
  const float factor = row->factor;
  const float* const f = row->frequencies;
  float* __restrict const c = row->cos;
  float* __restrict const s = row->sin;
  const size_t n = row->n;
  for (size_t i = 0; i < n; ++i) {
    const CosSin both = cos_sin(position * f[i]);
    c[i] = static_cast<float>(both.cos) * factor;
    s[i] = static_cast<float>(both.sin) * factor;
  }
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_ANGLES_H_
