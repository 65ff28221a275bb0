#pragma once
// Element types of tensors in GGUF files (ggml.h, enum ggml_type): names, and how many values a block holds in how
// many bytes. What a block means is the business of whoever reads weights.
//
// Thread rule: constants.

#include <cstdint>
#include <string_view>

namespace coxswain::gguf {

struct TensorType {
  std::uint32_t id = 0;
  std::string_view name;           // "Q4_K"
  std::uint32_t block_values = 1;  // a row holds whole blocks
  std::uint32_t block_bytes = 0;
};

// Null: no file has this type, or none any more.
const TensorType* find_tensor_type(std::uint32_t id);
const TensorType* find_tensor_type(std::string_view name);

}  // namespace coxswain::gguf
