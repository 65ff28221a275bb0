#ifndef COXSWAIN_KERNELS_CPU_GENERIC_CODES_ROW_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_CODES_ROW_H_
// Rows of activations for codes in groups or super-groups, over a Set of vectors. Included inside an anonymous
// namespace of coxswain::kernels, after the set's bytes.h and linear.h.

#include "kernels/cpu/generic/codes_at.h"
#include "kernels/formats/int4.h"

// Quantises a row and adds up its groups, or the sub-groups of these.
template <typename Codes>
void convert_row(const ConvertArgs* args) {
  const ConvertArgs c = *args;
  int8_t* out = static_cast<int8_t*>(c.values);
  const size_t n_groups = (c.k_padded + Codes::kGroup - 1) / Codes::kGroup;
  const float inverse = inverse_of(absmax_of(c.x, c.k), c.scale);
  if (inverse == 0.0F) {
    memset(out, 0, c.k_padded);
    memset(c.starts, 0, n_groups * Codes::kStarts * sizeof(int32_t));
    return;
  }
  const Set::Floats factor = Set::all(inverse);
  size_t i = 0;
  for (size_t g = 0; g < n_groups; ++g) {
    int32_t sums[Codes::kGroup / Codes::kSub] = {};
    for (int32_t& sum : sums) {
      const size_t end = i + Codes::kSub < c.k_padded ? i + Codes::kSub : c.k_padded;
      Set::Sums lanes = {};
      for (; i < end; i += Set::kOutputs) {
        const Set::Sums values = quantised(c, i, factor);
        Set::store_bytes(out + i, values);
        lanes = Set::add(lanes, values);
      }
      sum = Set::sum(lanes);
    }
    put_starts<Codes>(sums, c.starts + g * Codes::kStarts);
  }
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_CODES_ROW_H_
