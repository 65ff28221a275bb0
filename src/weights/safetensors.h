#pragma once
// Reads the header of one *.safetensors file.
//
// Format (the safetensors project's README): 8 bytes little-endian header length N, N bytes of
// JSON, data. The JSON object maps tensor names to {dtype, shape, data_offsets: [begin, end)},
// offsets counted from the first byte of data; "__metadata__" maps strings to strings.
// open_safetensors() proves, before any data is read: N within limits, every dtype known, shape
// products and byte sizes by checked multiplication, sizes equal to the offsets, tensors tiling the
// data area from 0 to its end without overlap or hole, names unique.
//
// Thread rule: pure function of the file.

#include <cstddef>
#include <cstdint>
#include <string>

#include <coxswain/status.h>

#include "weights/tensor_file.h"

namespace coxswain::weights {

struct SafetensorsLimits {
  std::uint64_t header_bytes_max = 100'000'000;  // the limit of the reference implementation
  std::size_t dimensions_max = 16;
};

// Errors name the file, the tensor and the rule: kNotFound if it cannot be opened, kDataLoss if it breaks the format.
Result<TensorFile> open_safetensors(const std::string& path, const SafetensorsLimits& limits = {});

}  // namespace coxswain::weights
