#pragma once
// DerivedTensor: a tensor of float32 values that a file keeps in several others, packed: codes, zero points, scales.
// It stands under the name that the model asks for and always has the shape [.., outputs, inputs], as linear layers
// do; its values are made row by row while they are read.
//
// Thread rule: a DerivedTensor is a value; a RowReader belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "weights/tensor_file.h"

namespace coxswain::weights {

struct StoredTensor {
  const TensorInfo* info = nullptr;
  const TensorFile* file = nullptr;
  explicit operator bool() const { return info != nullptr; }
};

// "FILE: tensor "NAME" " and what is wrong with it.
Status tensor_error(const StoredTensor& tensor, const std::string& what);

// Fills `out` with bytes of a part from `offset` on; so whoever reads knows what was read.
using ReadBytes =
    std::function<Status(const StoredTensor& part, std::uint64_t offset, std::span<std::byte> out)>;

class RowReader {
 public:
  RowReader() = default;
  virtual ~RowReader() = default;
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  // Rows [first, first + n) of all matrices laid one after the other; out [n, inputs]. Values need not be finite.
  // REQUIRES: the rows are there. Errors: those of ReadBytes.
  virtual Status read(std::uint64_t first, std::uint64_t n, float* out) = 0;

  // The scheme of read_codes(); bits are 0 where the rows cannot be had as codes.
  virtual tensor::QuantScheme scheme() const { return {}; }
  // The same rows as codes that stand for the same values, bit for bit. out.input_order is the same for all rows.
  // REQUIRES: scheme().bits != 0. Errors: as read().
  virtual Status read_codes(std::uint64_t /*first*/,
                            std::uint64_t /*n*/,
                            tensor::CodeRows& /*out*/) {
    return internal_error("this reader has no codes");
  }
};

struct DerivedTensor {
  TensorInfo info;  // name and shape; no bytes of its own
  // All that it takes the place of; messages name the file of the first.
  std::vector<StoredTensor> parts;
  // Errors name the part: values that do not fit together.
  std::function<Result<std::unique_ptr<RowReader>>(const ReadBytes& read)> open;
};

}  // namespace coxswain::weights
