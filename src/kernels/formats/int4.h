#ifndef COXSWAIN_KERNELS_FORMATS_INT4_H_
#define COXSWAIN_KERNELS_FORMATS_INT4_H_
// Codes of 4 bits, each group of inputs with one float16 scale: value = scale * (code - 8).
//
// A unit is 8 inputs of one output in 4 bytes: byte j holds input j in its low half and input j + 4 in its high half,
// so that two instructions turn 16 units of a vector into two vectors of 4 inputs each.
//
// Included inside an anonymous namespace: the sets' own files use it, and nothing of theirs may be
// taken for everyone's.

#include <stdint.h>

template <int kGroupInputs>
struct Int4 {
  static constexpr uint32_t kId = kGroupInputs == 32 ? 16 : 17;  // the format's, part of layout ids
  static constexpr int kGroup = kGroupInputs;                    // inputs that share a scale
  static constexpr int kUnitValues = 8;
  static constexpr int kUnitBytes = 4;
  static constexpr int kParts = 2;  // vectors of 4 inputs that a vector of units becomes
  static constexpr int kZero = 8;   // the code of 0
  static constexpr int kHighest = 15;

  // Code of input i of a unit.
  static int code(const uint8_t* unit, int i) { return i < 4 ? unit[i] & 0x0F : unit[i - 4] >> 4; }

  // Codes of inputs [4 * kPart, 4 * kPart + 4) of every unit of a vector.
  template <typename Set, int kPart>
  static typename Set::Bytes codes(typename Set::Bytes units) {
    return Set::and_bytes(kPart == 0 ? units : Set::template shift_right<4>(units), 0x0F);
  }
};

#endif  // COXSWAIN_KERNELS_FORMATS_INT4_H_
