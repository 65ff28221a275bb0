#pragma once
// Images of weights for a LinearKernel: values as [n / panel][k / unit_values][panel][unit], then scales as
// [n / panel][groups][panel], then sums; zeros beyond n and k. How a row becomes values and scales is the format's.
//
// These are the entries of LinearOps for every CPU set. Thread rule: different rows of one image at once.

#include <cstddef>

#include "kernels/weight_format.h"

namespace coxswain::kernels {

LinearOps::Layout image_layout(const LinearOps& ops, std::size_t n, std::size_t k);
void pack_rows(MatrixImage& image, std::size_t row_begin, const DenseRows& rows);
void pack_code_rows(MatrixImage& image, std::size_t row_begin, const tensor::QuantRows& rows);
void unpack_row(const MatrixImage& image, std::size_t row, float* out);

}  // namespace coxswain::kernels
