// Linear kernels for codes in super-groups on AMX tiles, for more rows than vpdpbusd takes: the same integers, and so
// the bits of every other set.
//
// What an activation meets is sub * code, a whole number of at most 2^12: its upper bits and its lower six are a byte
// each. Two chains of four tile products add both up over a super-group; an upper sum counts 64 times. The bytes are
// made once for all rows of a call. While one block's sums are worked on, the tiles have the next block's.

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/amx/code_tiles.h"
#include "kernels/cpu/amx/tile_config.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/avx512/bytes.h"
#include "kernels/cpu/avx512/super_words.h"
#include "kernels/cpu/generic/codes_at.h"
#include "kernels/formats/super.h"

constexpr size_t kWide = 2;  // vectors of outputs that share the loads of activations
constexpr size_t kSteps = kSuperInputs / 64;
constexpr size_t kRowsOfStep = kTileRows / kSteps;
constexpr int kLowBits = 6;

// sub * code of a super-group: its bits from kLowBits on, and those below. [vector][4 inputs][16 outputs][4].
struct alignas(64) Planes {
  int8_t high[kVectors][kSuperInputs / 4][64];
  int8_t low[kVectors][kSuperInputs / 4][64];
};

// Sums of both planes for 16 rows by kWide vectors of outputs.
struct alignas(64) Sums {
  int32_t high[kWide][kTileRows][16];
  int32_t low[kWide][kTileRows][16];
};

// What a sub-group's codes are multiplied by, in both halves of a word, and what stands for their zero.
struct Factor {
  __m512i sub;
  __m512i zero;
};

template <typename Codes>
inline Factor factor_of(const uint16_t* words, size_t sub) {
  const __m512i wide = subs_of<Codes>(words, sub);
  const __m512i both = _mm512_mask_mov_epi16(_mm512_slli_epi32(wide, 16), 0x55555555, wide);
  return {both, _mm512_mullo_epi16(both, _mm512_set1_epi16(Codes::kZero))};
}

// 64 codes times their subs, taken apart.
inline void put_products(__m512i codes, const Factor& by, int8_t* high, int8_t* low) {
  const __m512i first = _mm512_set1_epi16(0x00FF);
  const __m512i even =
      _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_and_si512(codes, first), by.sub), by.zero);
  const __m512i odd =
      _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(codes, 8), by.sub), by.zero);
  // first ? a : b
  constexpr int kSelect = 0xCA;
  const __m512i upper = _mm512_ternarylogic_epi32(
      first, _mm512_srli_epi16(even, kLowBits), _mm512_slli_epi16(odd, 8 - kLowBits), kSelect);
  const __m512i lower = _mm512_ternarylogic_epi32(first, even, _mm512_slli_epi16(odd, 8), kSelect);
  _mm512_store_si512(high, upper);
  _mm512_store_si512(low, Set::and_bytes(lower, (1 << kLowBits) - 1));
}

template <typename Codes, int kPart>
inline void put_unit(const uint8_t* w, const Factor& by, int8_t (*high)[64], int8_t (*low)[64]) {
  put_products(codes_at<Codes, kPart, kPanel>(w), by, high[kPart], low[kPart]);
  if constexpr (kPart + 1 < Codes::kParts) put_unit<Codes, kPart + 1>(w, by, high, low);
}

// The super-group of n inputs from `w` on, and zeros up to a whole step.
template <typename Codes>
inline void widen(const uint8_t* w, const uint16_t* words, size_t n, Planes* out) {
  constexpr size_t kUnitsOfSub = Codes::kSub / Codes::kUnitValues;
  constexpr size_t kStepBytes = kPanel * Codes::kUnitBytes;
  const size_t n_units = n / Codes::kUnitValues;
  for (size_t v = 0; v < kVectors; ++v) {
    for (size_t unit = 0; unit < n_units;) {
      const Factor by = factor_of<Codes>(words + v * 32, unit / kUnitsOfSub);
      const size_t end = unit + kUnitsOfSub < n_units ? unit + kUnitsOfSub : n_units;
      for (; unit < end; ++unit) {
        const size_t at = unit * Codes::kParts;
        put_unit<Codes, 0>(w + unit * kStepBytes + v * 64, by, out->high[v] + at, out->low[v] + at);
      }
    }
    for (size_t i = n_units * Codes::kParts; i % 16 != 0; ++i) {
      memset(out->high[v][i], 0, 64);
      memset(out->low[v][i], 0, 64);
    }
  }
}

// A super-group that is worked on.
struct Group {
  const Planes* planes;
  const uint16_t* words;
  size_t n_steps;  // of 64 inputs
  size_t a_stride;
  bool first;  // start from zero instead of from acc
  CodesAhead* ahead;
};

// 16 rows, or those that are left, by kWide vectors of outputs from `vector` on.
struct Block {
  const int8_t* a;
  const char* starts;
  char* acc;
  size_t n_rows;  // 0: none
  size_t vector;
};

// 64 inputs of a block. Tiles: sums of high and low planes in 0 to 3, rows in 4, planes in 5 to 7.
inline void multiply_step(Tiles& tiles, const Group& g, const Block& b, size_t step) {
  const size_t v = b.vector;
  const size_t i = step * 16;
  tiles.load<4>(b.a + step * 64, g.a_stride);
  tiles.load<5>(g.planes->high[v][i], 64);
  tiles.dot_s8s8<0, 4, 5>();
  tiles.load<6>(g.planes->low[v][i], 64);
  tiles.dot_s8s8<1, 4, 6>();
  tiles.load<7>(g.planes->high[v + 1][i], 64);
  tiles.dot_s8s8<2, 4, 7>();
  tiles.load<5>(g.planes->low[v + 1][i], 64);
  tiles.dot_s8s8<3, 4, 5>();
}

inline void start_sums(Tiles& tiles) {
  tiles.zero<0>();
  tiles.zero<1>();
  tiles.zero<2>();
  tiles.zero<3>();
}

inline void store_sums(Tiles& tiles, Sums* sums) {
  tiles.store<0>(sums->high[0], 64);
  tiles.store<1>(sums->low[0], 64);
  tiles.store<2>(sums->high[1], 64);
  tiles.store<3>(sums->low[1], 64);
}

// Adds rows [row, row + kRowsOfStep) of a block to acc.
template <typename Codes>
inline void flush_rows(const Group& g, const Block& b, const Sums& sums, size_t row) {
#pragma GCC unroll 2
  for (size_t v = 0; v < kWide; ++v) {
    const uint16_t* const words = g.words + (b.vector + v) * 32;
    const __m512i scales = Set::load_words(words);
    const __m512 scale = Set::widen_first(scales);
    const __m512 minimum = Set::widen_second(scales);
    __m512i minima[4];
    if constexpr (Codes::kHasMinima) {
#pragma GCC unroll 4
      for (size_t pair = 0; pair < 4; ++pair) minima[pair] = sub_minima_of(words, pair);
    }
#pragma GCC unroll 4
    for (size_t r = row; r < row + kRowsOfStep; ++r) {
      if (r >= b.n_rows) break;
      float* const at = reinterpret_cast<float*>(b.acc + r * kAccStride + v * 64);
      const __m512i high = _mm512_load_si512(sums.high[v][r]);
      const __m512i total =
          _mm512_add_epi32(_mm512_slli_epi32(high, kLowBits), _mm512_load_si512(sums.low[v][r]));
      __m512 out = g.first ? _mm512_setzero_ps() : _mm512_load_ps(at);
      out = _mm512_add_ps(out, _mm512_mul_ps(_mm512_cvtepi32_ps(total), scale));
      if constexpr (Codes::kHasMinima) {
        const char* const starts = b.starts + r * g.a_stride;
        __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (size_t pair = 0; pair < 4; ++pair)
          sum = _mm512_dpwssd_epi32(
              sum, minima[pair], Set::broadcast(starts + pair * sizeof(int32_t)));
        out = _mm512_sub_ps(out, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), minimum));
      }
      _mm512_store_ps(at, out);
    }
  }
}

// Asks for what the next steps need: the sums in acc that a block is added to, and half of the next rows.
inline void ask_ahead(const Group& g, const Block& b, size_t step) {
#pragma GCC unroll 4
  for (size_t r = step * kRowsOfStep; r < (step + 1) * kRowsOfStep; ++r) {
    const char* const next =
        reinterpret_cast<const char*>(b.a) + (kTileRows + r) * g.a_stride + b.vector * 64;
    _mm_prefetch(next, _MM_HINT_T0);
    _mm_prefetch(next + 64, _MM_HINT_T0);
    _mm_prefetch(b.acc + r * kAccStride, _MM_HINT_T0);
    _mm_prefetch(b.acc + r * kAccStride + 64, _MM_HINT_T0);
  }
}

// The products of one block beside the sums of the one before.
template <typename Codes>
inline void run_block(
    Tiles& tiles, const Group& g, const Block& b, const Block& before, Sums* sums) {
  start_sums(tiles);
  for (size_t step = 0; step < kSteps; ++step) {
    g.ahead->ask();
    ask_ahead(g, b, step);
    if (step < g.n_steps) multiply_step(tiles, g, b, step);
    flush_rows<Codes>(g, before, *sums, step * kRowsOfStep);
  }
  store_sums(tiles, sums);
}

inline TileConfig config_for(size_t rows) {
  return config_of({rows, rows, rows, rows, rows, kTileRows, kTileRows, kTileRows});
}

template <typename Codes>
void super_tile(const TileArgs* t) {
  const size_t rest = t->rows % kTileRows;
  const size_t whole = t->rows - rest;
  const TileConfig of_whole = config_for(kTileRows);
  const TileConfig of_rest = config_for(rest);
  Tiles tiles(of_whole);
  Planes planes;
  Sums sums;
  constexpr size_t kGroupBytes = kSuperInputs / Codes::kUnitValues * kPanel * Codes::kUnitBytes;
  const size_t n_blocks = (t->rows + kTileRows - 1) / kTileRows * kVectors / kWide;
  const uint8_t* w = static_cast<const uint8_t*>(t->w);
  for (size_t k = 0; k < t->k; k += kSuperInputs, w += kGroupBytes) {
    const size_t n = kSuperInputs < t->k - k ? kSuperInputs : t->k - k;
    const size_t group = k / kSuperInputs;
    CodesAhead ahead(w + kGroupBytes, kGroupBytes, n_blocks * kSteps);
    const Group g{&planes,
                  t->scales + group * kSuperWords * kSuperStep,
                  (n + 63) / 64,
                  t->a_stride_bytes,
                  t->first && k == 0,
                  &ahead};
    widen<Codes>(w, g.words, n, &planes);
    if (rest != 0 && k != 0) tiles.configure(of_whole);
    Block before{};
    for (size_t row = 0; row < t->rows; row += kTileRows) {
      if (row == whole) tiles.configure(of_rest);
      for (size_t v = 0; v < kVectors; v += kWide) {
        const Block b{static_cast<const int8_t*>(t->a) + row * t->a_stride_bytes + k,
                      reinterpret_cast<const char*>(t->a_starts + group * Codes::kStarts) +
                          row * t->a_stride_bytes,
                      static_cast<char*>(t->acc) + row * kAccStride + v * 64,
                      row < whole ? kTileRows : rest,
                      v};
        run_block<Codes>(tiles, g, b, before, &sums);
        before = b;
      }
    }
    for (size_t row = 0; row < kTileRows; row += kRowsOfStep)
      flush_rows<Codes>(g, before, sums, row);
  }
}

}  // namespace

void fill_amx_linear_super(SetOps* ops) {
  use_code_tiles(&ops->linear[kFormSuper4], super_tile<Super4>, 16);
  use_code_tiles(&ops->linear[kFormSuper6], super_tile<Super6>, 12);
}

}  // namespace coxswain::kernels
