// Linear kernels for codes in groups: unsigned codes times signed activations, pairs of products in 16 bits
// (vpmaddubsw), added up there as long as they fit, then widened. A group's sum starts at -zero times the sum of its
// activations, as with AVX-512.

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx2/linear_codes.h"

// Values of k after which the other half of a panel has its turn, so that it is found in the first-level cache.
constexpr size_t kPieceValues = 512;

// Where the sum of a group starts for 8 outputs; `words` are theirs.
template <typename Codes>
inline __m256i start_of(const uint16_t* words, __m256i start) {
  if constexpr (Codes::kOffset == GroupOffset::kZero)
    return _mm256_madd_epi16(Set::load_words(words), start);
  if constexpr (Codes::kOffset == GroupOffset::kMinimum || kAsSigned<Codes>)
    return _mm256_setzero_si256();
  return start;
}

template <typename Codes>
inline __m256 scale_of(const uint16_t* words) {
  if constexpr (Codes::kWords == 2) return Set::widen_first(Set::load_words(words));
  return Set::widen_f16(words);
}

// Adds a group whose sums are there; `words` are its parameters, `starts` what the rows give to it.
template <typename Codes, int kRows, int kVectors>
inline void add_group(__m256 (&out)[kRows][kVectors],
                      const __m256i (&sum)[kRows][kVectors],
                      const uint16_t* words,
                      const char* starts,
                      size_t a_stride) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m256 scale = scale_of<Codes>(words + v * 8 * Codes::kWords);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      out[r][v] = _mm256_add_ps(out[r][v], _mm256_mul_ps(_mm256_cvtepi32_ps(sum[r][v]), scale));
    if constexpr (Codes::kOffset == GroupOffset::kMinimum) {
      const __m256 minimum = Set::widen_second(Set::load_words(words + v * 16));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256i start = Set::broadcast(starts + static_cast<size_t>(r) * a_stride);
        out[r][v] = _mm256_add_ps(out[r][v], _mm256_mul_ps(_mm256_cvtepi32_ps(start), minimum));
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
  constexpr size_t kBlock = units_in_16_bits<Codes>() * Codes::kUnitValues;
  static_assert(kBlock > 0);
  const size_t unit = piece.begin / Codes::kUnitValues;
  const size_t group = piece.begin / Codes::kGroup;
  const uint8_t* w = static_cast<const uint8_t*>(t->w) + unit * kStepBytes + piece.vector * 32;
  const uint8_t* a = static_cast<const uint8_t*>(t->a) + piece.begin;
  const char* starts = reinterpret_cast<const char*>(t->a_starts + group);
  const uint16_t* scales =
      t->scales + group * kPanel * Codes::kWords + piece.vector * 8 * Codes::kWords;
  float* acc = static_cast<float*>(t->acc) + piece.vector * 8;
  const bool first = t->first && piece.begin == 0;
  // Bytes that are asked for: the next block's, or those that follow in the stream.
  const bool stream = t->prefetch == nullptr;
  const char* next =
      stream ? reinterpret_cast<const char*>(w) + 4096 : t->prefetch + unit * t->prefetch_step;
  const size_t ask = stream ? kStepBytes : piece.vector == 0 ? t->prefetch_step : 0;
  __m256 out[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      out[r][v] = first ? _mm256_setzero_ps() : _mm256_load_ps(acc + r * kPanel + v * 8);
  }
  for (size_t k = piece.begin; k < piece.end; k += Codes::kGroup) {
    const size_t end = k + Codes::kGroup < piece.end ? k + Codes::kGroup : piece.end;
    __m256i sum[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i start = Set::broadcast(starts + static_cast<size_t>(r) * t->a_stride_bytes);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = start_of<Codes>(scales + v * 16, start);
    }
    for (size_t block = k; block < end; block += kBlock) {
      const size_t block_end = block + kBlock < end ? block + kBlock : end;
      __m256i part[kRows][kVectors] = {};
      for (size_t i = block; i < block_end; i += Codes::kUnitValues) {
        _mm_prefetch(next, _MM_HINT_T0);
        next += ask;
        multiply_part<Codes, 0, kRows, kVectors>(part, w, a, t->a_stride_bytes);
        w += kStepBytes;
        a += Codes::kUnitValues;
      }
      add_parts(sum, part);
    }
    add_group<Codes, kRows, kVectors>(out, sum, scales, starts, t->a_stride_bytes);
    scales += kPanel * Codes::kWords;
    starts += sizeof(int32_t);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm256_store_ps(acc + r * kPanel + v * 8, out[r][v]);
  }
}

template <typename Codes, int kRows>
inline void run_group_rows(const TileArgs* t) {
  if (t->rows != kRows) {
    if constexpr (kRows > 1) run_group_rows<Codes, kRows - 1>(t);
    return;
  }
  if constexpr (kRows == 1) {
    multiply_groups<Codes, kRows, kPanelVectors>(t, {0, t->k, 0});
  } else {
    for (size_t k = 0; k < t->k; k += kPieceValues) {
      const size_t end = k + kPieceValues < t->k ? k + kPieceValues : t->k;
      multiply_groups<Codes, kRows, kPanelVectors / 2>(t, {k, end, 0});
      multiply_groups<Codes, kRows, kPanelVectors / 2>(t, {k, end, kPanelVectors / 2});
    }
  }
}

template <typename Codes>
void group_tile(const TileArgs* t) {
  run_group_rows<Codes, kRowTile>(t);
}

}  // namespace

void fill_avx2_linear_groups(SetOps* ops) {
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
