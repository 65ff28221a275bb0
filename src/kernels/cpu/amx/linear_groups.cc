// Linear kernels for codes in groups on AMX tiles, for more rows than vpdpbusd takes: the same integers, the same
// multiplication and addition for each group, and so the bits of every other set.
//
// Codes are widened to signed bytes once for all rows of a call. A tile product covers a group, or 64 inputs of it; its
// sums go through the first-level cache into vectors, where each group costs a conversion, a multiplication and an
// addition. While one group's sums are worked on, the tiles have groups to come.

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

// Sums of the groups under way. Products are so many groups ahead of those whose sums are worked on: a product takes 52
// cycles, and its sums another 20 through the first-level cache.
constexpr size_t kAhead = 4;
struct alignas(64) Sums {
  int32_t values[2 * kAhead][16][16];
};

// Units [0, n_units) of the panel from `w` on, and zeros up to a whole tile.
template <typename Codes>
inline void widen_piece(
    const uint8_t* w, size_t n_units, const char* ask, size_t ask_step, Widened* out) {
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(Codes::kZero));
  for (size_t u = 0; u < n_units; ++u) {
    _mm_prefetch(ask, _MM_HINT_T1);
    _mm_prefetch(ask + ask_step / 2, _MM_HINT_T1);
    ask += ask_step;
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

// n inputs of 16 rows, or those that are left, and of 16 outputs.
struct Factors {
  const int8_t* a;
  size_t a_stride;
  const int8_t (*codes)[64];
  size_t n;
  const int8_t* next;  // of four of the rows that follow, or null
};

// The sums of one group. Tiles: sums in kSum, rows in 4, codes in 5.
template <typename Codes, int kSum>
inline void multiply_group(Tiles& tiles, const Factors& f, int32_t* sums) {
  constexpr size_t kStep = Codes::kGroup < 64 ? Codes::kGroup : 64;
  tiles.zero<kSum>();
  for (size_t k = 0; k < f.n; k += kStep) {
    if (f.next != nullptr) {
#pragma GCC unroll 4
      for (size_t r = 0; r < kTileRows / kVectors; ++r)
        _mm_prefetch(f.next + k + r * f.a_stride, _MM_HINT_T0);
    }
    tiles.load<4>(f.a + k, f.a_stride);
    tiles.load<5>(f.codes + k / 4, 64);
    tiles.dot_s8s8<kSum, 4, 5>();
  }
  tiles.store<kSum>(sums, 64);
}

template <typename Codes>
inline void start_group(Tiles& tiles, size_t group, const Factors& f, Sums* sums) {
  int32_t* const to = sums->values[group % (2 * kAhead)][0];
  switch (group % kAhead) {
    case 0:
      return multiply_group<Codes, 0>(tiles, f, to);
    case 1:
      return multiply_group<Codes, 1>(tiles, f, to);
    case 2:
      return multiply_group<Codes, 2>(tiles, f, to);
    default:
      return multiply_group<Codes, 3>(tiles, f, to);
  }
}

// A piece of k of one tile call.
struct Piece {
  const TileArgs* t;
  size_t begin;
  size_t end;
  const Widened& widened;
  Sums* sums;
};

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

// Rows [row, row + n_rows) times one vector of outputs.
template <typename Codes>
inline void multiply_rows(
    Tiles& tiles, const Piece& piece, size_t row, size_t n_rows, size_t vector) {
  const TileArgs* const t = piece.t;
  const size_t n = piece.end - piece.begin;
  const int8_t* a = static_cast<const int8_t*>(t->a) + row * t->a_stride_bytes + piece.begin;
  const uint16_t* scales =
      t->scales + (piece.begin / Codes::kGroup * kPanel + vector * 16) * Codes::kWords;
  const char* starts = reinterpret_cast<const char*>(t->a_starts + piece.begin / Codes::kGroup) +
                       row * t->a_stride_bytes;
  char* acc = static_cast<char*>(t->acc) + row * kAccStride + vector * 64;
  const bool first = t->first && piece.begin == 0;
  __m512 out[16];
#pragma GCC unroll 16
  for (size_t r = 0; r < 16; ++r)
    out[r] = first || r >= n_rows ? _mm512_setzero_ps() : _mm512_load_ps(acc + r * kAccStride);
  const size_t n_groups = (n + Codes::kGroup - 1) / Codes::kGroup;
  // Each vector of outputs asks for a quarter of the next rows.
  const int8_t* next = row + 2 * kTileRows > t->rows
                           ? nullptr
                           : a + (kTileRows + vector * (kTileRows / kVectors)) * t->a_stride_bytes;
  const auto start = [&](size_t group) {
    if (group >= n_groups) return;
    const size_t k = group * Codes::kGroup;
    const size_t left = n - k < Codes::kGroup ? n - k : Codes::kGroup;
    const Factors f{a + k,
                    t->a_stride_bytes,
                    piece.widened.bytes[vector] + k / 4,
                    left,
                    next == nullptr ? nullptr : next + k};
    start_group<Codes>(tiles, group, f, piece.sums);
  };
  for (size_t group = 0; group < kAhead; ++group) start(group);
  for (size_t group = 0; group < n_groups; ++group, scales += kPanel * Codes::kWords) {
    start(group + kAhead);
    flush<Codes>(
        scales, piece.sums->values[group % (2 * kAhead)], starts, t->a_stride_bytes, n_rows, out);
    starts += sizeof(int32_t);
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < 16; ++r) {
    if (r < n_rows) _mm512_store_ps(acc + r * kAccStride, out[r]);
  }
}

// Tiles for `rows` rows.
template <typename Codes>
inline TileConfig config_for(size_t rows) {
  constexpr size_t kStep = Codes::kGroup < 64 ? Codes::kGroup : 64;
  TileConfig config;
  for (size_t tile = 0; tile < kAhead; ++tile) {
    config.rows[tile] = static_cast<uint8_t>(rows);
    config.row_bytes[tile] = 64;
  }
  config.rows[4] = static_cast<uint8_t>(rows);
  config.row_bytes[4] = kStep;
  config.rows[5] = kStep / 4;
  config.row_bytes[5] = 64;
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
  const char* ask = t->prefetch != nullptr ? t->prefetch : static_cast<const char*>(t->w) + 4096;
  const size_t ask_step = t->prefetch != nullptr ? t->prefetch_step : 256;
  for (size_t begin = 0; begin < t->k; begin += kPieceValues) {
    const size_t end = begin + kPieceValues < t->k ? begin + kPieceValues : t->k;
    const size_t n_units = (end - begin) / Codes::kUnitValues;
    widen_piece<Codes>(w, n_units, ask, ask_step, &widened);
    w += n_units * kPanel * Codes::kUnitBytes;
    ask += n_units * ask_step;
    const Piece piece{t, begin, end, widened, &sums};
    if (rest != 0 && begin != 0) tiles.configure(of_whole);
    for (size_t row = 0; row < whole; row += kTileRows) {
      for (size_t v = 0; v < kVectors; ++v) multiply_rows<Codes>(tiles, piece, row, kTileRows, v);
    }
    if (rest == 0) continue;
    tiles.configure(of_rest);
    for (size_t v = 0; v < kVectors; ++v) multiply_rows<Codes>(tiles, piece, whole, rest, v);
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
