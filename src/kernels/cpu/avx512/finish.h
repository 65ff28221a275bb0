#ifndef COXSWAIN_KERNELS_CPU_AVX512_FINISH_H_
#define COXSWAIN_KERNELS_CPU_AVX512_FINISH_H_
// Sums to results with AVX-512. Included inside an anonymous namespace of coxswain::kernels, after
// <immintrin.h>, <math.h> and "kernels/cpu/ops.h".
//
// `Outputs` says what becomes of the sums of 16 outputs:
//   Outputs(f, column, lanes)  what belongs to outputs [column, column + 16) of a panel, of which `lanes` exist
//   of(sums, row)              their results, before bias; sums as sums_of() has them, row of the panel's

// Each builds on the one before.
// clang-format off
#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/activate.h"
// clang-format on

// Float sums as they are.
struct PlainOutputs {
  PlainOutputs(const FinishArgs*, size_t, __mmask16) {}
  __m512 of(const char* sums, size_t) const { return _mm512_load_ps(sums); }
};

// Float sums times the scale of their row.
struct ScaledOutputs {
  ScaledOutputs(const FinishArgs* f, size_t, __mmask16) : row_scales(f->row_scales) {}
  __m512 of(const char* sums, size_t row) const {
    return _mm512_mul_ps(_mm512_load_ps(sums), _mm512_set1_ps(row_scales[row]));
  }
  const float* row_scales;
};

// Up to kPanelMax outputs of each row.
template <typename Outputs>
void finish(const FinishArgs* args) {
  constexpr size_t kVectorsMax = kPanelMax / 16;
  const FinishArgs f = *args;
  const auto at = [&](size_t v) { return Outputs(&f, v * 16, lanes_of(f.n, v * 16)); };
  const Outputs outputs[kVectorsMax] = {at(0), at(1), at(2), at(3)};
  for (size_t r = 0; r < f.rows; ++r) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectorsMax; ++v) {
      if (v * 16 >= f.n) break;
      put(&f, r, v * 16, outputs[v].of(sums_of(&f, r, v * 16), r));
    }
  }
}

// Results of 16 outputs of a row, before y.
template <typename Outputs>
inline __m512 result_of(const FinishArgs& f, const Outputs& outputs, size_t row, size_t column) {
  const __m512 value = outputs.of(sums_of(&f, row, column), row);
  return f.bias == nullptr ? value : _mm512_add_ps(value, _mm512_loadu_ps(f.bias + column));
}

// Two vectors of a gate's outputs at a time: what is written at once is two lines.
template <typename Outputs, ActivationKind kKind, bool kStreams>
inline void finish_gate_of(const GateArgs* args) {
  const FinishArgs gate = args->gate;
  const FinishArgs up = args->up;
  for (size_t column = 0; column < gate.n; column += 32) {
    const Outputs gates[2] = {{&gate, column, 0xFFFF}, {&gate, column + 16, 0xFFFF}};
    const Outputs ups[2] = {{&up, column, 0xFFFF}, {&up, column + 16, 0xFFFF}};
    for (size_t r = 0; r < gate.rows; ++r) {
#pragma GCC unroll 2
      for (size_t v = 0; v < 2; ++v) {
        const size_t at = column + v * 16;
        const __m512 factor = activate<kKind>(result_of(gate, gates[v], r, at));
        const __m512 value = _mm512_mul_ps(factor, result_of(up, ups[v], r, at));
        float* const y = gate.y + r * gate.y_stride + at;
        kStreams ? _mm512_stream_ps(y, value) : _mm512_storeu_ps(y, value);
      }
    }
  }
}

template <typename Outputs>
void finish_gate(const GateArgs* args) {
  with_activation(static_cast<ActivationKind>(args->kind), [&]<ActivationKind kKind>() {
    args->streams ? finish_gate_of<Outputs, kKind, true>(args)
                  : finish_gate_of<Outputs, kKind, false>(args);
  });
}

template <typename Outputs>
inline void use_finish(LinearKernel* kernel) {
  kernel->finish = finish<Outputs>;
  kernel->finish_gate = finish_gate<Outputs>;
}

#endif  // COXSWAIN_KERNELS_CPU_AVX512_FINISH_H_
