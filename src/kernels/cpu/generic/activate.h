#ifndef COXSWAIN_KERNELS_CPU_GENERIC_ACTIVATE_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_ACTIVATE_H_
// Activations of a vector. Included inside an anonymous namespace of coxswain::kernels, after generic/math.h.

template <ActivationKind kKind>
inline Vec::Reg activate(Vec::Reg x) {
  if constexpr (kKind == kActSilu) {
    return Vec::mul(x, sigmoid_of(x));
  } else if constexpr (kKind == kActGeluErf) {
    const Vec::Reg half = Vec::mul(x, Vec::set1(0.5F));
    return Vec::fmadd(half, erf_of(Vec::mul(x, Vec::set1(0.70710678F))), half);
  } else if constexpr (kKind == kActGeluTanh) {
    // 0.5 x (1 + tanh u) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
    const Vec::Reg cube = Vec::mul(Vec::mul(x, x), x);
    const Vec::Reg u = Vec::fmadd(Vec::set1(0.044715F), cube, x);
    return Vec::mul(x, sigmoid_of(Vec::mul(u, Vec::set1(1.59576912F))));
  } else if constexpr (kKind == kActGeluQuick) {
    return Vec::mul(x, sigmoid_of(Vec::mul(x, Vec::set1(1.702F))));
  } else {
    const Vec::Reg positive = Vec::max(Vec::zero(), x);
    return kKind == kActRelu ? positive : Vec::mul(positive, positive);
  }
}

// Calls body.template operator()<kind>().
template <typename Body>
inline void with_activation(ActivationKind kind, Body body) {
  switch (kind) {
    case kActSilu:
      return body.template operator()<kActSilu>();
    case kActGeluErf:
      return body.template operator()<kActGeluErf>();
    case kActGeluTanh:
      return body.template operator()<kActGeluTanh>();
    case kActRelu:
      return body.template operator()<kActRelu>();
    case kActReluSquared:
      return body.template operator()<kActReluSquared>();
    case kActGeluQuick:
      return body.template operator()<kActGeluQuick>();
  }
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_ACTIVATE_H_
