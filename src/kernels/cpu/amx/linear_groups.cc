// Linear kernels for codes in groups on AMX tiles, for more rows than vpdpbusd takes: the same integers, the same
// multiplication and addition for each group, and so the bits of every other set.
//
// Codes are widened to signed bytes once for all rows of a call. A tile product covers a group, or 64 inputs of it; its
// sums go through the first-level cache into vectors, where each group costs a conversion, a multiplication and an
// addition. While one group's sums are added, the tiles have groups to come (ADR 0137).

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/amx/code_tiles.h"
#include "kernels/cpu/amx/tile_config.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/avx512/bytes.h"
#include "kernels/formats/int4.h"

constexpr size_t kPieceValues = 512;  // widened at a time: 32 KiB

// Measured: a product of 32 inputs takes tiles as long as one of 64.
template <typename Codes>
constexpr uint32_t kFewRows = Codes::kGroup < 64 ? 16 : 11;

// Widened codes of a piece: [vector][4 inputs][16 outputs][4], as tiles want them.
struct alignas(64) Widened {
  int8_t bytes[kVectors][kPieceValues / 4][64];
};

// A group passes through three stages: its product in a tile, its sums in memory, their addition to results. Of four
// groups that follow each other one is multiplied, one on its way, one is stored and one is added.
constexpr size_t kStages = 4;
struct alignas(64) Sums {
  int32_t values[kStages][16][16];
};

// Units [0, n_units) of the panel from `w` on, and zeros up to a whole tile.
template <typename Codes>
inline void widen_piece(const uint8_t* w, size_t n_units, Widened* out) {
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(Codes::kZero));
  for (size_t u = 0; u < n_units; ++u) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v, w += 64) {
      const __m512i units = Set::load(w);
      int8_t(*to)[64] = out->bytes[v] + u * Codes::kParts;
      _mm512_store_si512(to[0], _mm512_sub_epi8(Codes::template codes<Set, 0>(units), zero));
      if constexpr (Codes::kParts == 2)
        _mm512_store_si512(to[1], _mm512_sub_epi8(Codes::template codes<Set, 1>(units), zero));
    }
  }
  for (size_t i = n_units * Codes::kParts; i % 16 != 0; ++i) {
    for (size_t v = 0; v < kVectors; ++v) memset(out->bytes[v][i], 0, 64);
  }
}

// A piece of k of one tile call.
struct Piece {
  const TileArgs* t;
  size_t begin;
  size_t end;
  size_t n_groups;
  const Widened& widened;
  Sums* sums;
  CodesAhead* ahead;
};

// 16 rows, or those that are left, times one vector of outputs.
struct Block {
  const int8_t* a;
  const int8_t (*codes)[64];
  const uint16_t* words;  // parameters of the first group
  const char* starts;
  char* acc;
};

template <typename Codes>
inline Block block_of(const Piece& piece, size_t row, size_t vector) {
  const TileArgs* const t = piece.t;
  const size_t group = piece.begin / Codes::kGroup;
  return {static_cast<const int8_t*>(t->a) + row * t->a_stride_bytes + piece.begin,
          piece.widened.bytes[vector],
          t->scales + (group * kPanel + vector * 16) * Codes::kWords,
          reinterpret_cast<const char*>(t->a_starts + group) + row * t->a_stride_bytes,
          static_cast<char*>(t->acc) + row * kAccStride + vector * 64};
}

// The product of one group. Rows in tiles 4 and 6, codes in 5 and 7.
template <typename Codes, int kSum>
inline void multiply_group(Tiles& tiles, const Piece& piece, const Block& block, size_t group) {
  constexpr size_t kStep = Codes::kGroup < 64 ? Codes::kGroup : 64;
  const size_t stride = piece.t->a_stride_bytes;
  const size_t first = group * Codes::kGroup;
  const size_t left = piece.end - piece.begin - first;
  const int8_t* const a = block.a + first;
  const int8_t(*const codes)[64] = block.codes + first / 4;
  tiles.zero<kSum>();
  tiles.load<4>(a, stride);
  tiles.load<5>(codes, 64);
  tiles.dot_s8s8<kSum, 4, 5>();
  if constexpr (Codes::kGroup > kStep) {
    static_assert(Codes::kGroup == 2 * kStep);
    if (left <= kStep) return;
    tiles.load<6>(a + kStep, stride);
    tiles.load<7>(codes + kStep / 4, 64);
    tiles.dot_s8s8<kSum, 6, 7>();
  }
}

// Adds the sums of a group. Rows beyond n_rows are added to nobody's outputs.
template <typename Codes>
inline void flush(const uint16_t* words,
                  const int32_t (*sums)[16],
                  const char* starts,
                  size_t stride,
                  size_t n_rows,
                  __m512 (&out)[16]) {
  if constexpr (Codes::kOffset == GroupOffset::kNone) {
    const __m512 scale = Set::widen_f16(words);
#pragma GCC unroll 16
    for (size_t r = 0; r < 16; ++r) {
      const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[r]));
      out[r] = _mm512_add_ps(out[r], _mm512_mul_ps(sum, scale));
    }
  } else {
    const __m512i pairs = Set::load_words(words);
    const __m512 scale = Set::widen_first(pairs);
    const __m512 minimum = Set::widen_second(pairs);
#pragma GCC unroll 16
    for (size_t r = 0; r < 16; ++r) {
      const __m512i start = Set::broadcast(starts + (r < n_rows ? r : 0) * stride);
      __m512i sum = _mm512_load_si512(sums[r]);
      if constexpr (Codes::kOffset == GroupOffset::kZero)
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, start));
      out[r] = _mm512_add_ps(out[r], _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale));
      if constexpr (Codes::kOffset == GroupOffset::kMinimum)
        out[r] = _mm512_add_ps(out[r], _mm512_mul_ps(_mm512_cvtepi32_ps(start), minimum));
    }
  }
}

inline void load_results(const char* acc, bool first, size_t n_rows, __m512 (&out)[16]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < 16; ++r)
    out[r] = first || r >= n_rows ? _mm512_setzero_ps() : _mm512_load_ps(acc + r * kAccStride);
}
inline void store_results(char* acc, size_t n_rows, const __m512 (&out)[16]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < 16; ++r) {
    if (r < n_rows) _mm512_store_ps(acc + r * kAccStride, out[r]);
  }
}

// Rows of a piece, n_rows at a time.
template <typename Codes>
struct Rows {
  Tiles& tiles;
  Piece piece;
  size_t n_rows;

  // The product of a group of one block, and the addition of one of the same or of the block before.
  template <int kStage>
  void step(const Block& block, size_t group, const Block& adding, size_t added, __m512 (&out)[16])
      const {
    constexpr int kStored = (kStage + 2) % kStages;
    constexpr int kAdded = (kStage + 1) % kStages;
    if (group < piece.n_groups) multiply_group<Codes, kStage>(tiles, piece, block, group);
    tiles.store<kStored>(piece.sums->values[kStored], 64);
    if (added < piece.n_groups) {
      flush<Codes>(adding.words + added * kPanel * Codes::kWords,
                   piece.sums->values[kAdded],
                   adding.starts + added * sizeof(int32_t),
                   piece.t->a_stride_bytes,
                   n_rows,
                   out);
    }
  }

  // Rows [begin, end) times the panel. The last three groups of a block are added while the next one begins.
  void multiply(size_t begin, size_t end) const {
    // Its own copy is known to stay as it is while tiles write to memory.
    const Rows rows = *this;
    const bool first = piece.t->first && piece.begin == 0;
    const size_t n_groups = piece.n_groups;  // no such group
    const size_t n_steps = (n_groups + kStages - 1) / kStages * kStages;
    // The first group of the block before that is not added yet. n_steps: there is no such block.
    size_t late = n_steps;
    Block before = block_of<Codes>(piece, begin, 0);
    __m512 out[16];
    load_results(before.acc, true, n_rows, out);
    // The first stores come before the first sums.
    tiles.zero<1>();
    tiles.zero<2>();
    tiles.zero<3>();
    for (size_t row = begin; row < end; row += n_rows) {
      for (size_t v = 0; v < kVectors; ++v) {
        const Block block = block_of<Codes>(piece, row, v);
        piece.ahead->ask();
        rows.step<0>(block, 0, before, late, out);
        rows.step<1>(block, 1, before, late + 1, out);
        rows.step<2>(block, 2, before, late + 2, out);
        if (late != n_steps) store_results(before.acc, n_rows, out);
        load_results(block.acc, first, n_rows, out);
        rows.step<3>(block, 3, block, 0, out);
        for (size_t group = kStages; group < n_steps; group += kStages) {
          piece.ahead->ask();
          rows.step<0>(block, group, block, group - 3, out);
          rows.step<1>(block, group + 1, block, group - 2, out);
          rows.step<2>(block, group + 2, block, group - 1, out);
          rows.step<3>(block, group + 3, block, group, out);
        }
        late = n_steps - 3;
        before = block;
      }
    }
    rows.step<0>(before, n_groups, before, late, out);
    rows.step<1>(before, n_groups, before, late + 1, out);
    rows.step<2>(before, n_groups, before, late + 2, out);
    store_results(before.acc, n_rows, out);
  }
};

// Tiles for `rows` rows.
template <typename Codes>
inline TileConfig config_for(size_t rows) {
  constexpr size_t kStep = Codes::kGroup < 64 ? Codes::kGroup : 64;
  TileConfig config = config_of({rows, rows, rows, rows, rows, kStep / 4, rows, kStep / 4});
  config.row_bytes[4] = config.row_bytes[6] = kStep;
  return config;
}

template <typename Codes>
void group_tile(const TileArgs* t) {
  const size_t rest = t->rows % kTileRows;
  const size_t whole = t->rows - rest;
  const TileConfig of_whole = config_for<Codes>(kTileRows);
  const TileConfig of_rest = config_for<Codes>(rest);
  Tiles tiles(of_whole);
  Widened widened;
  Sums sums{};
  const uint8_t* w = static_cast<const uint8_t*>(t->w);
  for (size_t begin = 0; begin < t->k; begin += kPieceValues) {
    const size_t end = begin + kPieceValues < t->k ? begin + kPieceValues : t->k;
    const size_t n_units = (end - begin) / Codes::kUnitValues;
    widen_piece<Codes>(w, n_units, &widened);
    const size_t bytes = n_units * kPanel * Codes::kUnitBytes;
    w += bytes;
    const size_t n_groups = (end - begin + Codes::kGroup - 1) / Codes::kGroup;
    const size_t n_blocks = (t->rows + kTileRows - 1) / kTileRows * kVectors;
    CodesAhead ahead(w, bytes, n_blocks * ((n_groups + kStages - 1) / kStages));
    const Piece piece{t, begin, end, n_groups, widened, &sums, &ahead};
    if (rest != 0 && begin != 0) tiles.configure(of_whole);
    if (whole != 0) Rows<Codes>{tiles, piece, kTileRows}.multiply(0, whole);
    if (rest == 0) continue;
    tiles.configure(of_rest);
    Rows<Codes>{tiles, piece, rest}.multiply(whole, t->rows);
  }
}

}  // namespace

void fill_amx_linear_groups(SetOps* ops) {
#define COXSWAIN_PLAIN_FORMAT(name)
#define COXSWAIN_GROUP_FORMAT(name, codes) \
  use_code_tiles(&ops->linear[kForm##name], group_tile<codes>, kFewRows<codes>);
#define COXSWAIN_SUPER_FORMAT(name)
#include "kernels/formats/list.inc"
#undef COXSWAIN_PLAIN_FORMAT
#undef COXSWAIN_GROUP_FORMAT
#undef COXSWAIN_SUPER_FORMAT
}

}  // namespace coxswain::kernels
