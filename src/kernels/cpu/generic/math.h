#ifndef COXSWAIN_KERNELS_CPU_GENERIC_MATH_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_MATH_H_
// exp, tanh and erf over a Vec of any set. Each lane's result depends on that lane alone, so a tail gives the same bits
// as a body. Included inside an anonymous namespace of coxswain::kernels, after the set's vec.h.

// e^x, to about 1 unit in the last place. Zero below -87.3 (where the result would be subnormal), e^88.02
// above 88.02; NaN stays NaN. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a minimax polynomial (S. Moshier's
// Cephes library, single precision).
inline Vec::Reg exp_of(Vec::Reg x) {
  const Vec::Reg low = Vec::set1(-87.3F);
  const Vec::Reg clamped = Vec::min(Vec::set1(88.02F), Vec::max(low, x));
  const Vec::Reg n = Vec::round(Vec::mul(clamped, Vec::set1(1.44269504F)));
  Vec::Reg r = Vec::fmadd(n, Vec::set1(-0.693359375F), clamped);
  r = Vec::fmadd(n, Vec::set1(2.12194440e-4F), r);
  Vec::Reg p = Vec::set1(1.9875691500e-4F);
  p = Vec::fmadd(p, r, Vec::set1(1.3981999507e-3F));
  p = Vec::fmadd(p, r, Vec::set1(8.3334519073e-3F));
  p = Vec::fmadd(p, r, Vec::set1(4.1665795894e-2F));
  p = Vec::fmadd(p, r, Vec::set1(1.6666665459e-1F));
  p = Vec::fmadd(p, r, Vec::set1(0.5F));
  p = Vec::fmadd(Vec::mul(p, r), r, Vec::add(r, Vec::set1(1.0F)));
  const Vec::Reg result = Vec::mul(p, Vec::pow2(n));
  return Vec::if_less(x, low, Vec::zero(), result);
}

// 1 / (1 + e^-x)
inline Vec::Reg sigmoid_of(Vec::Reg x) {
  const Vec::Reg one = Vec::set1(1.0F);
  return Vec::div(one, Vec::add(one, exp_of(Vec::sub(Vec::zero(), x))));
}

// 1 - 2 / (1 + e^2x); absolute error about 1e-7.
inline Vec::Reg tanh_of(Vec::Reg x) {
  const Vec::Reg one = Vec::set1(1.0F);
  const Vec::Reg e = exp_of(Vec::add(x, x));
  return Vec::sub(one, Vec::div(Vec::set1(2.0F), Vec::add(one, e)));
}

// The same to about 2 units in the last place, also near zero: below 0.625 an odd
// polynomial (Cephes, single precision).
inline Vec::Reg accurate_tanh_of(Vec::Reg x) {
  const Vec::Reg magnitude = Vec::max(Vec::sub(Vec::zero(), x), x);
  const Vec::Reg square = Vec::mul(x, x);
  Vec::Reg p = Vec::set1(-5.70498872745e-3F);
  p = Vec::fmadd(p, square, Vec::set1(2.06390887954e-2F));
  p = Vec::fmadd(p, square, Vec::set1(-5.37397155531e-2F));
  p = Vec::fmadd(p, square, Vec::set1(1.33314422036e-1F));
  p = Vec::fmadd(p, square, Vec::set1(-3.33332819422e-1F));
  const Vec::Reg small = Vec::fmadd(Vec::mul(p, square), x, x);
  return Vec::if_less(magnitude, Vec::set1(0.625F), small, tanh_of(x));
}

// Abramowitz and Stegun, 7.1.26: absolute error below 2e-7.
inline Vec::Reg erf_of(Vec::Reg x) {
  const Vec::Reg one = Vec::set1(1.0F);
  const Vec::Reg minus = Vec::sub(Vec::zero(), x);
  const Vec::Reg magnitude = Vec::max(minus, x);
  const Vec::Reg t = Vec::div(one, Vec::fmadd(Vec::set1(0.3275911F), magnitude, one));
  Vec::Reg p = Vec::set1(1.061405429F);
  p = Vec::fmadd(p, t, Vec::set1(-1.453152027F));
  p = Vec::fmadd(p, t, Vec::set1(1.421413741F));
  p = Vec::fmadd(p, t, Vec::set1(-0.284496736F));
  p = Vec::fmadd(p, t, Vec::set1(0.254829592F));
  p = Vec::mul(p, t);
  const Vec::Reg e = exp_of(Vec::mul(minus, x));
  const Vec::Reg positive = Vec::sub(one, Vec::mul(p, e));
  return Vec::if_less(x, Vec::zero(), Vec::sub(Vec::zero(), positive), positive);
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_MATH_H_
