#pragma once
// What blocks are made of as held in memory: norms, linear layers packed for one kernel set, and tables of rows.
//
// Thread rule: immutable after load.

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "tensor/aligned_buffer.h"
#include "tensor/dtype.h"

namespace coxswain::model {

struct NormWeights {
  std::vector<float> weight;
  std::vector<float> bias;  // empty = none

  bool empty() const { return weight.empty(); }
};

// Pieces of one linear layer that a step takes at once.
inline constexpr std::size_t kLinearPiecesMax = 8;

// What scratch of linear calls is sized for.
struct LinearLimits {
  std::size_t n_pieces = 1;  // of a layer
  std::size_t n_forms = 1;   // formats that meet in a layer
};

// What a linear layer is to be held in: a format alone says it all.
struct Holding {
  Holding(const kernels::WeightFormat& of, bool codes = false) : format(&of), keeps_codes(codes) {}

  const kernels::WeightFormat* format;
  // Rows that are stored as codes stay so where a format takes them, rows that are stored as floats stay of their type;
  // all others become `format`.
  bool keeps_codes;
};

// y = x * w^T + bias, w [n, k]: pieces stacked along n, each in a weight format of its own. One piece but for
// weights that are stored as codes: there one for each stored tensor.
struct Linear {
  std::string tensor;  // that its first rows come from, as families name it
  std::vector<kernels::MatrixImage> pieces;
  std::vector<float> bias;  // [n] or empty

  bool empty() const { return pieces.empty(); }
  std::size_t n() const;
  std::size_t k() const { return empty() ? 0 : pieces.front().k; }
};

// Rows to look up, as stored: [n_rows, width].
struct RowTable {
  tensor::DType type = tensor::DType::kF32;
  std::size_t n_rows = 0;
  std::size_t width = 0;
  tensor::AlignedBuffer data;
};

}  // namespace coxswain::model
