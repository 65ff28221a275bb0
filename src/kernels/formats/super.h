#ifndef COXSWAIN_KERNELS_FORMATS_SUPER_H_
#define COXSWAIN_KERNELS_FORMATS_SUPER_H_
// Codes in super-groups of 256 inputs: a float16 scale, and for each sub-group a whole number that it is multiplied by.
//
//   Super4   value = scale * (sub * code) - minimum * sub_minimum    4 bits, sub-groups of 32, GGUF's Q4_K
//   Super6   value = scale * (sub * (code - 32))                     6 bits, sub-groups of 16, signed sub, GGUF's Q6_K
//
// The parameters of a super-group are five words of 32 bits, each of all outputs of a panel side by side: scale and
// minimum; then, for Super4, four times sub, sub_minimum, sub, sub_minimum in bytes, for Super6 four times four subs.
//
// Integer sums of sub-groups times their subs are integers too: one multiplication by the scale and one addition for
// each super-group, then one of each for the minima.
//
// Included inside an anonymous namespace, as formats/int4.h is, whose units these are.

#include <stdint.h>

#include "kernels/formats/int4.h"

inline constexpr int kSuperInputs = 256;
inline constexpr int kSuperWords = 5;

struct Super4 : Int4<kSuperInputs, 22> {
  static constexpr bool kHasMinima = true;
  static constexpr int kSub = 32;  // inputs of a sub-group
  static constexpr int kZero = 0;
  static constexpr int kStarts = 4;  // of a row for each super-group: pairs of sums of sub-groups
};

// A unit is a sub-group in three words: the lower four bits of 8 inputs each in two, as Int4 has them; in byte j of the
// third the upper two bits of inputs j, j + 4, j + 8 and j + 12, from the lowest on.
struct Super6 : Int4<kSuperInputs, 24> {
  static constexpr bool kHasMinima = false;
  static constexpr int kSub = 16;
  static constexpr int kStarts = 16;  // -kZero times the sum of each sub-group
  static constexpr int kUnitValues = 16;
  static constexpr int kUnitBytes = 12;
  static constexpr int kParts = 4;
  static constexpr int kZero = 32;
  static constexpr int kHighest = 63;

  static int code(const uint8_t* unit, int i) {
    return Int4::code(unit + i / 8 * 4, i % 8) | (unit[8 + i % 4] >> (i / 4 * 2) & 3) << 4;
  }

  // `lower` is the word that holds the lower bits.
  template <typename Set, int kPart>
  static typename Set::Bytes codes(typename Set::Bytes lower, typename Set::Bytes upper) {
    return Set::or_masked(
        Int4::codes<Set, kPart % 2>(lower), Set::template shift_left<4 - 2 * kPart>(upper), 0x30);
  }
};

#endif  // COXSWAIN_KERNELS_FORMATS_SUPER_H_
