#pragma once
// Where in a checkpoint the values of a weight stand. Family files write these beside the ArchSpec (architecture.h);
// WeightReader reads them.
//
// Names are given without the prefix that some checkpoints put before all of them (TensorMap::prefixes).
//
// Thread rule: values.

#include <cstdint>
#include <string>
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

}  // namespace coxswain::model
