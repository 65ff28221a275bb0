#pragma once
// What a GGUF file is made of, wherever it comes from: keys, and tensors of floats that are read a few rows at a time.
//
// Thread rule: read() from one thread at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "gguf/writer.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::quantize {

struct GgufSourceTensor {
  gguf::NewTensor tensor;  // as it is read
  // Fills `out` with whole rows from `row` on.
  std::function<Status(std::uint64_t row, std::span<std::byte> out)> read;
};

struct GgufSource {
  gguf::KeyList keys;  // without those that say how the file is quantised
  std::vector<GgufSourceTensor> tensors;
  std::uint32_t n_layers = 0;
  std::uint32_t n_experts = 0;
  std::string note = {};  // a line that is to be told; empty: there is nothing to say
};

// A GGUF file; its keys are copied. Errors: those of reading; kUnimplemented for one that is split over files.
Result<GgufSource> open_gguf_source(const std::string& path);

// A folder of safetensors with a tokenizer.json: keys and names as llama.cpp's converter writes them. The note tells
// whether the file's lists of tokens mean other tokens of `text` than the tokenizer.
// Errors: those of model::export_to_gguf() and tokenizer::add_gguf_vocabulary().
Result<GgufSource> open_folder_source(const std::string& model_dir, std::string_view text);

}  // namespace coxswain::quantize
