// Attention over a bf16 cache with vdpbf16ps: two products a lane and instruction, of queries and
// weights rounded to bf16. Caches of other types take the float32 way.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

// Each builds on the one before.
// clang-format off
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/elementwise.h"
#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/attention_widened.h"
#include "kernels/cpu/avx512/bf16_pairs.h"
// clang-format on

struct Bf16Pairs : FloatTiles<Bf16Pairs>, PairsLayout {
  // The accumulator is named as read and written: g++ 12 copies and spills it around the intrinsic.
  static void dot(Vec::Reg& sum, Vec::Reg x, Vec::Reg y) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
  }

  static Vec::Reg only(Vec::Reg value, int position) {
    const __m512i half = _mm512_set1_epi32(position == 0 ? 0xFFFF : static_cast<int>(0xFFFF0000U));
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(value), half));
  }
};

void attention_bf16(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  if (shape->type == kCacheBf16) {
    attention_over<Bf16Pairs>(shape, task, scratch);
  } else {
    attention(shape, task, scratch);
  }
}

}  // namespace

void fill_avx512_attention_bf16(SetOps* ops) {
  ops->vector.attention = attention_bf16;
}

}  // namespace coxswain::kernels
