#pragma once
// Values to blocks of GGUF tensors (weights/gguf_blocks.h says what each type's block stands for): of several scales
// the one that leaves the least squared error.
//
// Thread rule: pure functions.

#include <cstddef>
#include <string_view>

namespace coxswain::quantize {

// The values of one block to its bytes.
using EncodeBlock = void (*)(const float* values, std::byte* block);

// F32, F16, Q4_0, Q5_0, Q8_0, Q4_K, Q5_K and Q6_K. Null: any other type.
EncodeBlock find_block_encoder(std::string_view type);

}  // namespace coxswain::quantize
