// Linear kernels for codes in groups: unsigned codes times signed activations (vpdpbusd), integer sums inside a group,
// then a multiplication by the group's scale and an addition. The sums of a group's activations are added up once while
// the row is quantised. A zero of the codes that all outputs have is taken away by starting the sum at -zero times that
// sum; one that each group has, by a product of 16 bits of it and -sum (which lies in the upper half of a start, beside
// nothing, as the zero lies beside the scale).

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx512/linear_codes.h"

// Values of k after which the other half of a panel has its turn, so that it is found in the first-level cache.
constexpr size_t kPieceValues = 512;

// Where the sum of a group starts for 16 outputs; `words` are theirs.
template <typename Codes>
inline __m512i start_of(const uint16_t* words, __m512i start) {
  if constexpr (Codes::kOffset == GroupOffset::kZero)
    return _mm512_madd_epi16(Set::load_words(words), start);
  if constexpr (Codes::kOffset == GroupOffset::kMinimum) return _mm512_setzero_si512();
  return start;
}

template <typename Codes>
inline __m512 scale_of(const uint16_t* words) {
  if constexpr (Codes::kWords == 2) return Set::widen_first(Set::load_words(words));
  return Set::widen_f16(words);
}

// Adds a group whose sums are there; `words` are its parameters, `starts` what the rows give to it.
template <typename Codes, int kRows, int kVectors>
inline void add_group(__m512 (&out)[kRows][kVectors],
                      const __m512i (&sum)[kRows][kVectors],
                      const uint16_t* words,
                      const char* starts,
                      size_t a_stride) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m512 scale = scale_of<Codes>(words + v * 16 * Codes::kWords);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      out[r][v] = _mm512_add_ps(out[r][v], _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r][v]), scale));
    if constexpr (Codes::kOffset == GroupOffset::kMinimum) {
      const __m512 minimum = Set::widen_second(Set::load_words(words + v * 32));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512i start = Set::broadcast(starts + static_cast<size_t>(r) * a_stride);
        out[r][v] = _mm512_add_ps(out[r][v], _mm512_mul_ps(_mm512_cvtepi32_ps(start), minimum));
      }
    }
  }
}

// A range of k within a tile, whole groups from its beginning, and the first of the vectors that are worked on.
struct Piece {
  size_t begin;
  size_t end;
  int vector;
};

template <typename Codes, int kRows, int kVectors>
inline void multiply_groups(const TileArgs* t, const Piece& piece) {
  constexpr size_t kStepBytes = size_t{kPanel} * Codes::kUnitBytes;
  const size_t unit = piece.begin / Codes::kUnitValues;
  const size_t group = piece.begin / Codes::kGroup;
  const uint8_t* w = static_cast<const uint8_t*>(t->w) + unit * kStepBytes + piece.vector * 64;
  const uint8_t* a = static_cast<const uint8_t*>(t->a) + piece.begin;
  const char* starts = reinterpret_cast<const char*>(t->a_starts + group);
  const uint16_t* scales =
      t->scales + group * kPanel * Codes::kWords + piece.vector * 16 * Codes::kWords;
  char* acc = static_cast<char*>(t->acc) + piece.vector * 64;
  const bool first = t->first && piece.begin == 0;
  const size_t n_units = (piece.end - piece.begin) / Codes::kUnitValues;
  Ask ask = ask_of<Codes, kVectors>(t, {unit, n_units, piece.vector}, kStepBytes);
  __m512 out[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      out[r][v] = first ? _mm512_setzero_ps() : _mm512_load_ps(acc + r * kPanel * 4 + v * 64);
  }
  for (size_t k = piece.begin; k < piece.end; k += Codes::kGroup) {
    const size_t end = k + Codes::kGroup < piece.end ? k + Codes::kGroup : piece.end;
    __m512i sum[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i start = Set::broadcast(starts + static_cast<size_t>(r) * t->a_stride_bytes);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = start_of<Codes>(scales + v * 32, start);
    }
    for (size_t i = k; i < end; i += Codes::kUnitValues) {
      ask.step();
      multiply_part<Codes, 0, kRows, kVectors>(sum, w, a, t->a_stride_bytes);
      w += kStepBytes;
      a += Codes::kUnitValues;
    }
    add_group<Codes, kRows, kVectors>(out, sum, scales, starts, t->a_stride_bytes);
    scales += kPanel * Codes::kWords;
    starts += sizeof(int32_t);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(acc + r * kPanel * 4 + v * 64, out[r][v]);
  }
}

// One or two rows have registers for the whole panel; more take half of it, piece by piece of k.
template <typename Codes, int kRows>
inline void run_group_rows(const TileArgs* t) {
  if (t->rows != kRows) {
    if constexpr (kRows > 1) run_group_rows<Codes, kRows - 1>(t);
    return;
  }
  if constexpr (kRows <= 2) {
    multiply_groups<Codes, kRows, kVectors>(t, {0, t->k, 0});
  } else {
    for (size_t k = 0; k < t->k; k += kPieceValues) {
      const size_t end = k + kPieceValues < t->k ? k + kPieceValues : t->k;
      multiply_groups<Codes, kRows, kVectors / 2>(t, {k, end, 0});
      multiply_groups<Codes, kRows, kVectors / 2>(t, {k, end, kVectors / 2});
    }
  }
}

template <typename Codes>
void group_tile(const TileArgs* t) {
  run_group_rows<Codes, kRowTile>(t);
}

}  // namespace

void fill_avx512_linear_groups(SetOps* ops) {
#define COXSWAIN_PLAIN_FORMAT(name)
#define COXSWAIN_GROUP_FORMAT(name, codes) \
  ops->linear[kForm##name] = codes_kernel<codes>(convert_row<codes>, group_tile<codes>);
#define COXSWAIN_SUPER_FORMAT(name)
#include "kernels/formats/list.inc"
#undef COXSWAIN_PLAIN_FORMAT
#undef COXSWAIN_GROUP_FORMAT
#undef COXSWAIN_SUPER_FORMAT
}

}  // namespace coxswain::kernels
