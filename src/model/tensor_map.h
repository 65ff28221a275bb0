#pragma once
// TensorMap: which tensors of a checkpoint fill which weights of an ArchSpec. Filled by the family
// file beside the ArchSpec.
//
// Names are given without the prefix that some checkpoints put before all of them; `prefixes` lists
// what may stand there.
//
// Thread rule: values.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace coxswain::model {

// Rows (outputs) of one stored tensor that go, in order, into the next rows of a weight.
struct Rows {
  std::string tensor;                // one or several [n, k], or [k, n] if transposed
  std::string otherwise;             // another name under which it may lie; empty = none
  std::vector<std::uint64_t> shape;  // of the whole tensor, checked
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t step = 1;  // every step-th row from `first`
  bool transposed = false;
  std::uint64_t index = 0;  // which of several matrices in the tensor
  std::string bias;         // vector with the same choice of rows; empty = none
};

struct MatrixMap {
  std::vector<Rows> rows;
  std::uint64_t k = 0;

  bool empty() const { return rows.empty(); }
  std::uint64_t n() const {
    std::uint64_t out = 0;
    for (const Rows& r : rows) out += r.count;
    return out;
  }
};

// A vector, or several laid one after the other. Shapes are checked by their total size.
struct VectorMap {
  std::vector<std::string> tensors;
  std::uint64_t size = 0;

  bool empty() const { return tensors.empty(); }
};

struct NormMap {
  VectorMap weight;
  VectorMap bias;

  bool empty() const { return weight.empty(); }
};

struct MlpMap {
  MatrixMap up;  // gate and up stacked, if gated
  MatrixMap down;
};

struct LayerMap {
  NormMap attention_norm;  // before attention, or after it for NormPlacement::kAfterResidual
  NormMap attention_norm_after;
  NormMap mlp_norm;
  NormMap mlp_norm_after;
  MatrixMap qkv;  // rows of q, then k, then v
  MatrixMap out;
  NormMap q_norm;
  NormMap k_norm;
  VectorMap sinks;
  MlpMap mlp;
  MatrixMap router;
  std::vector<MlpMap> experts;
  MlpMap shared_expert;
  MatrixMap shared_gate;
};

struct TensorMap {
  std::vector<std::string> prefixes{""};
  MatrixMap embedding;
  MatrixMap positions;
  NormMap embedding_norm;
  MatrixMap project_in;
  MatrixMap project_out;
  NormMap final_norm;
  MatrixMap head;  // empty = tied to the embedding
  std::vector<LayerMap> layers;
};

}  // namespace coxswain::model
