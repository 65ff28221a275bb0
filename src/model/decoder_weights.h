#pragma once
// DecoderWeights: the weights of one model as the decoder core uses them. Matrices are packed for
// one kernel set.
//
// Thread rule: immutable after load.

#include <cstddef>
#include <cstdint>
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

struct Linear {
  kernels::PackedMatrix matrix;
  std::vector<float> bias;  // [n] or empty

  bool empty() const { return matrix.n == 0; }
};

struct MlpWeights {
  Linear up;    // [2 * intermediate or intermediate, hidden]: gate rows, then up rows
  Linear down;  // [hidden, intermediate]
};

struct LayerWeights {
  NormWeights attention_norm;
  NormWeights attention_norm_after;
  NormWeights mlp_norm;
  NormWeights mlp_norm_after;
  Linear qkv;  // [q_width + 2 * kv_width, hidden]
  Linear out;  // [hidden, q_width]
  NormWeights q_norm;
  NormWeights k_norm;
  std::vector<float> sinks;
  MlpWeights mlp;
  Linear router;  // [n_experts, hidden], always float32: which experts run must not depend on
                  // --quantize
  std::vector<MlpWeights> experts;
  MlpWeights shared_expert;
  Linear shared_gate;  // [1, hidden], float32
};

// Rows to look up, as stored: [n_rows, width].
struct RowTable {
  tensor::DType type = tensor::DType::kF32;
  std::size_t n_rows = 0;
  std::size_t width = 0;
  tensor::AlignedBuffer data;

  // Row i, widened, into out [width].
  void read(std::size_t i, float* out) const;
};

struct DecoderWeights {
  RowTable
      embedding;  // no rows where they are read back from the head, which holds the same weights
  RowTable positions;
  NormWeights embedding_norm;
  Linear project_in;
  Linear project_out;
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  Linear head;  // [vocab, embedding width]
};

}  // namespace coxswain::model
