#ifndef COXSWAIN_KERNELS_CPU_GENERIC_CODES_AT_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_CODES_AT_H_
// Codes out of a panel. Included inside an anonymous namespace of coxswain::kernels, after bytes.h of the set.

// Codes of part kPart of the units of a vector. Units of several words have each word of all outputs of a panel side by
// side; the upper bits are the last.
template <typename Codes, int kPart, int kPanelOutputs>
inline Set::Bytes codes_at(const uint8_t* w) {
  constexpr int kPlane = kPanelOutputs * 4;
  if constexpr (Codes::kUnitBytes == 4) {
    return Codes::template codes<Set, kPart>(Set::load(w));
  } else {
    return Codes::template codes<Set, kPart>(Set::load(w + kPart / 2 * kPlane),
                                             Set::load(w + 2 * kPlane));
  }
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_CODES_AT_H_
