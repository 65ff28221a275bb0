#pragma once
// Packs weights into the panels of a LinearKernel: [n / panel][k / k_group][panel][k_group], zero
// beyond n and k.
//
// int8: each output has its own scale, absmax / 127; a weight is x * (127 / absmax), rounded to
// nearest even. Thread rule: calls for different rows of one matrix may run at once only if the
// rows lie in different panels.

#include <cstddef>

#include "kernels/cpu/ops.h"
#include "kernels/kernel_table.h"

namespace coxswain::kernels {

std::size_t packed_size_bytes(const LinearKernel& kernel, std::size_t n, std::size_t k);
void pack_rows(PackedMatrix& matrix,
               std::size_t row_begin,
               const PackSource& source,
               const LinearKernel& kernel);

// Row `row` as it is multiplied: exact, or scale times integer for int8. `out` holds matrix.k
// values.
void unpack_row(const PackedMatrix& matrix,
                std::size_t row,
                float* out,
                const LinearKernel& kernel);

}  // namespace coxswain::kernels
