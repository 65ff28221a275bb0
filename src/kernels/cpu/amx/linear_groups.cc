// Linear kernels for codes in groups on AMX tiles, for more rows than vpdpbusd takes: the same integers, the same
// multiplication and addition for each group, and so the bits of every other set.
//
// Codes are widened to signed bytes once for up to 64 rows. A tile product covers a group (or 64 inputs of it); its
// sums go through the first-level cache into vectors, where each group costs a conversion, a multiplication and an
// addition. While one group's sums are worked on, the tiles have the next group's.

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/amx/tile_config.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/avx512/bytes.h"
#include "kernels/formats/int4.h"

constexpr size_t kPanel = 64;
constexpr size_t kVectors = 4;
constexpr size_t kRowTile = 64;
constexpr size_t kPieceValues = 512;  // widened at a time: 32 KiB
constexpr size_t kAccStride = kPanel * sizeof(float);

// Widened codes of a piece: [vector][4 inputs][16 outputs][4], as tiles want them.
struct alignas(64) Widened {
  int8_t bytes[kVectors][kPieceValues / 4][64];
};

struct alignas(64) Sums {
  int32_t values[2][16][16];
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

// The sums of one group of inputs, for up to 16 rows by 16 outputs. Tiles: sums in kSum, rows in kSum + 4, codes in 6.
template <typename Codes, int kSum>
inline void multiply_group(Tiles& tiles,
                           const int8_t* a,
                           size_t a_stride,
                           const int8_t (*codes)[64],
                           size_t n,
                           int32_t* sums) {
  constexpr size_t kStep = Codes::kGroup < 64 ? Codes::kGroup : 64;
  tiles.zero<kSum>();
  for (size_t k = 0; k < n; k += kStep) {
    tiles.load<kSum + 4>(a + k, a_stride);
    tiles.load<6>(codes + k / 4, 64);
    tiles.dot_s8s8<kSum, kSum + 4, 6>();
  }
  tiles.store<kSum>(sums, 64);
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

// Rows [row, row + 16) or, where kSum is 1, those that are left, times one vector of outputs.
template <typename Codes, int kSum>
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
  const auto start = [&](size_t group) {
    const size_t k = group * Codes::kGroup;
    const size_t left = n - k;
    multiply_group<Codes, kSum>(tiles,
                                a + k,
                                t->a_stride_bytes,
                                piece.widened.bytes[vector] + k / 4,
                                left < Codes::kGroup ? left : Codes::kGroup,
                                piece.sums->values[group & 1][0]);
  };
  start(0);
  for (size_t group = 0; group < n_groups; ++group, scales += kPanel * Codes::kWords) {
    if (group + 1 < n_groups) start(group + 1);
    flush<Codes>(scales, piece.sums->values[group & 1], starts, t->a_stride_bytes, n_rows, out);
    starts += sizeof(int32_t);
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < 16; ++r) {
    if (r < n_rows) _mm512_store_ps(acc + r * kAccStride, out[r]);
  }
}

template <typename Codes>
void group_tile(const TileArgs* t) {
  constexpr size_t kStep = Codes::kGroup < 64 ? Codes::kGroup : 64;
  const size_t rest = t->rows % kTileRows;
  TileConfig config;
  const auto shape = [&](size_t tile, size_t rows, size_t row_bytes) {
    config.rows[tile] = static_cast<uint8_t>(rows);
    config.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
  };
  shape(0, kTileRows, 64);
  shape(4, kTileRows, kStep);
  if (rest != 0) {
    shape(1, rest, 64);
    shape(5, rest, kStep);
  }
  shape(6, kStep / 4, 64);
  Tiles tiles(config);
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
    for (size_t v = 0; v < kVectors; ++v) {
      size_t row = 0;
      for (; row + kTileRows <= t->rows; row += kTileRows)
        multiply_rows<Codes, 0>(tiles, piece, row, kTileRows, v);
      if (rest != 0) multiply_rows<Codes, 1>(tiles, piece, row, rest, v);
    }
  }
}

template <typename Codes>
void use_tiles(LinearKernel* kernel) {
  kernel->tile_few = kernel->tile;
  kernel->few_rows = kernel->row_tile;
  kernel->row_tile = kRowTile;
  kernel->row_unit = kTileRows;
  kernel->k_block = 2048;
  kernel->chunk_bytes = 1U << 19;
  kernel->tile = group_tile<Codes>;
}

}  // namespace

// Layout, activations and results are those of AVX-512.
void fill_amx_linear_groups(SetOps* ops) {
#define COXSWAIN_PLAIN_FORMAT(name)
#define COXSWAIN_GROUP_FORMAT(name, codes) use_tiles<codes>(&ops->linear[kForm##name]);
#define COXSWAIN_SUPER_FORMAT(name)
#include "kernels/formats/list.inc"
#undef COXSWAIN_PLAIN_FORMAT
#undef COXSWAIN_GROUP_FORMAT
#undef COXSWAIN_SUPER_FORMAT
}

}  // namespace coxswain::kernels
