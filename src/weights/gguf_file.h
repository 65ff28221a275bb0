#pragma once
// Opens a GGUF file as tensors (gguf/header.h for the format). Names become those of the checkpoint that the file was
// made from, as whoever knows the architecture says.
//
// Thread rule: pure functions of the file.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "gguf/header.h"
#include "weights/tensor_file.h"

namespace coxswain::weights {

// What a tensor of the file is.
struct GgufName {
  std::string name = {};  // empty: nothing that this program knows
  // Not 0: the outermost dimension counts experts, at most so many. Each is a tensor, its number where the name has {}.
  std::uint64_t experts_max = 0;
  bool is_row = false;      // a vector there, a matrix of one row here
  bool is_ignored = false;  // read elsewhere, or made of what the header says
};

using GgufNaming = std::function<GgufName(std::string_view name)>;

// Errors: kNotFound if it cannot be opened; kDataLoss, naming tensor and rule, for a tensor whose type holds no weights
// or whose shape does not suit its name; kUnimplemented for a name that is not known.
Result<TensorFile> open_gguf(const std::string& path,
                             const gguf::Header& header,
                             const GgufNaming& naming);

}  // namespace coxswain::weights
