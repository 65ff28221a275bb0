#pragma once
// Weights of one byte each, int8 or float8 e4m3fn, stored [N, K] with scales for blocks of any size; what fp8,
// compressed-tensors and bitsandbytes have in common.
//   W[n, k] = (q - z) * scale
//
// Thread rule: pure functions.

#include <cstdint>
#include <vector>

#include "weights/quant/module.h"

namespace coxswain::weights::quant {

// e4m3fn: no infinities, 0x7f and 0xff are NaN.
float e4m3_to_float(std::uint8_t bits);

struct ByteMatrix {
  StoredTensor weight;  // [n, k], I8 or F8_E4M3
  StoredTensor scales;  // [ceil(n / block_rows), ceil(k / block_inputs)] of kScaleTypes
  StoredTensor zeros;   // I8, of as many; may be empty
  std::uint64_t block_rows = 1;
  std::uint64_t block_inputs = 1;
  float scale_divisor = 1.0F;
};

// The weight of `module`, one of `types`, not empty; [n, k] is its shape.
Result<ByteMatrix> byte_matrix(const Module& module, std::span<const StoredType> types);
// Fits block sizes to a scale of the whole tensor ([], [1], [1, 1]) or of each output ([n], [n, 1]). Errors name it.
Status fit_plain_scales(ByteMatrix& matrix);
// Checks the shape of scales for the block sizes given. Errors name the part.
Status fit_block_scales(ByteMatrix& matrix);

Result<std::unique_ptr<RowReader>> open_byte_rows(const ByteMatrix& matrix, const ReadBytes& read);

}  // namespace coxswain::weights::quant
