#ifndef COXSWAIN_KERNELS_CPU_AVX512_LINEAR_CODES_H_
#define COXSWAIN_KERNELS_CPU_AVX512_LINEAR_CODES_H_
// What the kernels of AVX-512 for codes in groups and in super-groups share. Included inside an anonymous namespace of
// coxswain::kernels, after <immintrin.h>, <string.h> and "kernels/cpu/ops.h".

#include "kernels/cpu/avx512/bytes.h"
#include "kernels/cpu/avx512/finish.h"
#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/generic/codes_row.h"
#include "kernels/formats/int4.h"

// What generic/codes_kernel.h asks for: layout ids, before the format's; k_block.
constexpr uint32_t kCodeLayouts = 0x3000;
template <typename Codes>
inline constexpr uint32_t kBlockValues =
    kBlockBytes / (kPanel * Codes::kUnitBytes) * Codes::kUnitValues / Codes::kGroup * Codes::kGroup;

// Units of a panel that are worked on, from the beginning of a tile's range, and the first of the vectors.
struct Units {
  size_t begin;
  size_t n;
  int vector;
};

// What is asked of memory meanwhile, `bytes` with each unit.
struct Ask {
  const char* next = nullptr;
  size_t bytes = 0;

  void step() {
    if (bytes == 0) return;
    prefetch_share(next, bytes);
    next += bytes;
  }
};

// How far ahead a panel is asked for that is read once: 16 units, or as many of several words.
template <typename Codes>
inline constexpr size_t kStreamAhead = Codes::kUnitBytes == 4 ? 4096 : 8192;

// The next block where the tile names it, with the first vectors. Where it does not, the panel is read once: what lies
// kStreamAhead; or half of the units behind these, where each half of the vectors has its turn (hardware follows
// a stream, but not halves of one).
template <typename Codes, int kWide>
inline Ask ask_of(const TileArgs* t, const Units& units, size_t step_bytes) {
  const bool first = units.vector == 0;
  if (t->prefetch != nullptr)
    return first ? Ask{t->prefetch + units.begin * t->prefetch_step, t->prefetch_step} : Ask{};
  const char* const at = static_cast<const char*>(t->w) + units.begin * step_bytes;
  if (kWide == kVectors) return {at + kStreamAhead<Codes>, step_bytes};
  const size_t half = units.n * step_bytes / 2;
  return {at + (first ? 2 : 3) * half, step_bytes / 2};
}

// One unit of kVectors vectors times kRows rows.
template <typename Codes, int kPart, int kRows, int kVectors>
inline void multiply_part(Set::Sums (&sum)[kRows][kVectors],
                          const uint8_t* w,
                          const uint8_t* a,
                          size_t a_stride) {
  Set::Bytes codes[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) codes[v] = codes_at<Codes, kPart, kPanel>(w + v * 64);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512i x = Set::broadcast(a + static_cast<size_t>(r) * a_stride + kPart * 4);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Set::dot(sum[r][v], codes[v], x);
  }
  if constexpr (kPart + 1 < Codes::kParts)
    multiply_part<Codes, kPart + 1, kRows, kVectors>(sum, w, a, a_stride);
}

constexpr auto kFinish = finish<ScaledOutputs>;
constexpr auto kFinishGate = finish_gate<ScaledOutputs>;

#include "kernels/cpu/generic/codes_kernel.h"

#endif  // COXSWAIN_KERNELS_CPU_AVX512_LINEAR_CODES_H_
