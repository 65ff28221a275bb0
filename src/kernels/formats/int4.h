#ifndef COXSWAIN_KERNELS_FORMATS_INT4_H_
#define COXSWAIN_KERNELS_FORMATS_INT4_H_
// Codes of 4 bits, each group of inputs with a scale (float16) of its own and, in some formats, a second parameter:
//
//   Int4          scale * (code - 8)
//   Int4Zero      scale * (code - zero)         zero is a whole number, held in 16 bits
//   Int4Minimum   scale * code + minimum        minimum is a float16
//
// The parameters of a group are one 16-bit word, or two: the scale first.
//
// A unit is 8 inputs of one output in 4 bytes: byte j holds input j in its low half and input j + 4 in its high half,
// so that two instructions turn 16 units of a vector into two vectors of 4 inputs each.
//
// Included inside an anonymous namespace: the sets' own files use it, and nothing of theirs may be
// taken for everyone's.

#include <stdint.h>

enum class GroupOffset : uint8_t { kNone, kZero, kMinimum };

template <int kGroupInputs, uint32_t kFormatId = kGroupInputs == 32 ? 16 : 17>
struct Int4 {
  static constexpr uint32_t kId = kFormatId;   // the format's, part of layout ids
  static constexpr int kGroup = kGroupInputs;  // inputs that share a scale
  static constexpr int kSub = kGroup;          // inputs whose sum a row gives
  static constexpr int kStarts = 1;            // of a row for each group, made of these sums
  static constexpr GroupOffset kOffset = GroupOffset::kNone;
  static constexpr int kWords = 1;  // of a group's parameters, 16 bits each
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

template <int kGroupInputs>
struct Int4Zero : Int4<kGroupInputs, kGroupInputs == 32 ? 19 : 20> {
  static constexpr GroupOffset kOffset = GroupOffset::kZero;
  static constexpr int kWords = 2;
  static constexpr int kZero = 0;
};

template <int kGroupInputs>
struct Int4Minimum : Int4<kGroupInputs, 21> {
  static constexpr GroupOffset kOffset = GroupOffset::kMinimum;
  static constexpr int kWords = 2;
  static constexpr int kZero = 0;
};

// Codes of 8 bits with a float16 scale: scale * (code - 128). A unit is 4 inputs of one output.
template <int kGroupInputs>
struct Int8 {
  static constexpr uint32_t kId = 18;
  static constexpr int kGroup = kGroupInputs;
  static constexpr int kSub = kGroup;
  static constexpr int kStarts = 1;
  static constexpr GroupOffset kOffset = GroupOffset::kNone;
  static constexpr int kWords = 1;
  static constexpr int kUnitValues = 4;
  static constexpr int kUnitBytes = 4;
  static constexpr int kParts = 1;
  static constexpr int kZero = 128;
  static constexpr int kHighest = 255;

  static int code(const uint8_t* unit, int i) { return unit[i]; }

  template <typename Set, int kPart>
  static typename Set::Bytes codes(typename Set::Bytes units) {
    return units;
  }
};

// What a row gives to a group, in the vector sets (cpu/avx512/linear_groups.cc): `sums` are those of its activations,
// of each sub-group. A start is one sum, or the lower 16 bits of two (formats/super.h).
template <typename Codes>
inline void put_starts(const int32_t* sums, int32_t* starts) {
  constexpr bool kPairs = Codes::kStarts * Codes::kSub != Codes::kGroup;
  for (int i = 0; i < Codes::kStarts; ++i) {
    if constexpr (kPairs) {
      starts[i] = static_cast<int32_t>((static_cast<uint32_t>(sums[2 * i]) & 0xFFFFU) |
                                       static_cast<uint32_t>(sums[2 * i + 1]) << 16);
    } else if constexpr (Codes::kOffset == GroupOffset::kZero) {
      starts[i] = static_cast<int32_t>(static_cast<uint32_t>(-sums[i]) << 16);
    } else {
      starts[i] = Codes::kOffset == GroupOffset::kMinimum ? sums[i] : -Codes::kZero * sums[i];
    }
  }
}

#endif  // COXSWAIN_KERNELS_FORMATS_INT4_H_
