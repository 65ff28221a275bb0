#pragma once
// What blocks of GGUF tensors stand for, as float32: the definition that everything else is tested against.
//
// A block is a scale or several and codes (ggml-quants.c, functions dequantize_row_*; ggml-common.h for the layouts).
// Products and sums are rounded once each, in the order that the reference rounds them: bits are equal.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weights/tensor_file.h"

namespace coxswain::weights {

// One block at `block`, of the type's bytes at any address, to its values at `out`.
using DecodeBlock = void (*)(const std::byte* block, float* out);

// By the type's name ("Q4_K"). Null: integers, and types that hold no weights.
DecodeBlock find_block_decoder(std::string_view type);

// How blocks of the type are taken apart, for types whose values are codes times a scale. Null: the others.
const BlockCodes* find_block_codes(std::string_view type);

// Those of gguf_blocks_iq.cc: entries of code books.
namespace gguf_blocks {
void decode_iq1_s(const std::byte* block, float* out);
void decode_iq1_m(const std::byte* block, float* out);
void decode_iq2_xxs(const std::byte* block, float* out);
void decode_iq2_xs(const std::byte* block, float* out);
void decode_iq2_s(const std::byte* block, float* out);
void decode_iq3_xxs(const std::byte* block, float* out);
void decode_iq3_s(const std::byte* block, float* out);
}  // namespace gguf_blocks

}  // namespace coxswain::weights
