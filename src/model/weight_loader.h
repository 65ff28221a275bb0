#pragma once
// WeightLoader: fills weights from a checkpoint through a TensorMap, a slice of rows at a time, so
// that the peak of memory is the packed size plus a few MiB (a whole matrix where a file stores it
// transposed). Names, shapes and types are checked here; errors name file, tensor and rule.
//
// Thread rule: one thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include <coxswain/status.h>

#include "kernels/kernel_table.h"
#include "model/tensor_map.h"
#include "model/weight_parts.h"
#include "weights/checkpoint.h"

namespace coxswain::model {

class WeightLoader {
 public:
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

  // All references must outlive the loader.
  WeightLoader(const weights::Checkpoint& checkpoint,
               const std::vector<std::string>& prefixes,
               const kernels::KernelTable& table,
               Progress progress);

  // The type of the first tensor of `map`.
  Result<tensor::DType> stored_type(const MatrixMap& map) const;

  // Whether the other name of `rows` holds other values than the first. False unless both are there.
  Result<bool> other_name_differs(const Rows& rows);

  // Whether a tensor of `map` is stored as codes.
  bool is_quantised(const MatrixMap& map) const;

  // An empty map gives an empty weight.
  Result<Linear> linear(const MatrixMap& map, const Holding& how);
  Result<RowTable> rows(const MatrixMap& map, tensor::DType type);
  Result<NormWeights> norm(const NormMap& map);
  Result<std::vector<float>> vector(const VectorMap& map);

  // Names of tensors that nothing asked for: neither masks and tables that files carry along for
  // other programs, nor types that no weight has.
  std::vector<std::string> unread() const;

  std::uint64_t bytes() const { return bytes_; }  // held by everything made so far
  // The format of most bytes of the linear layers made so far. REQUIRES: there is one.
  const kernels::WeightFormat& main_format() const;
  const LinearLimits& limits() const { return limits_; }  // of all of them
  std::uint64_t fingerprint() const {
    return fingerprint_;
  }  // of every byte read, whatever the order

 private:
  struct Source {
    weights::Checkpoint::Located at;
    // As it is handed on: values of blocks are float32.
    tensor::DType type = tensor::DType::kF32;
    std::uint64_t n = 0;  // rows of one [n, k] matrix
    bool transposed = false;
  };
  using TakeRows = std::function<void(std::size_t row_begin, const kernels::DenseRows& rows)>;

  weights::Checkpoint::Located find(const std::string& name) const;
  Result<Source> source(const Rows& rows, std::uint64_t k) const;
  Status read(const weights::Checkpoint::Located& at,
              std::uint64_t offset,
              std::span<std::byte> out);
  // `n_values` values of a tensor from `first` on, as its type or, of blocks and derived tensors, as float32; whole
  // blocks or rows, or an error.
  Status read_values(const Source& source,
                     std::uint64_t first,
                     std::vector<std::byte>& out,
                     std::uint64_t n_values);
  Status open_derived(const weights::DerivedTensor& derived);
  // How the rows can be had as codes; bits are 0 where they cannot.
  Result<tensor::QuantScheme> scheme_of(const Source& source, std::uint64_t k);
  // Rows [first, first + n) of all matrices of the tensor.
  Status read_codes(const Source& source,
                    std::uint64_t k,
                    std::uint64_t first,
                    std::uint64_t n,
                    tensor::CodeRows& out);
  // Rows of one tensor, as they are stored or as `otherwise`.
  Result<kernels::MatrixImage> image_as_stored(const MatrixMap& map,
                                               const kernels::WeightFormat& otherwise);
  Result<kernels::MatrixImage> image_of_codes(const MatrixMap& map, const kernels::LinearOps& ops);
  Result<kernels::MatrixImage> image_of_values(const MatrixMap& map,
                                               const kernels::WeightFormat& format);
  // The same of a derived tensor.
  Status derive_values(const Source& source, std::uint64_t first, std::span<float> out);
  // Hands all rows of `map` to `take`, slice by slice.
  Status for_each_slice(const MatrixMap& map, const TakeRows& take);
  Status straight_slices(const Rows& rows,
                         const Source& source,
                         std::uint64_t k,
                         std::size_t row_begin,
                         const TakeRows& take);
  Status gathered_slices(const Rows& rows,
                         const Source& source,
                         std::uint64_t k,
                         std::size_t row_begin,
                         const TakeRows& take);
  Result<std::vector<float>> floats(const std::string& name, std::uint64_t size);
  Result<std::vector<float>> bias(const MatrixMap& map);

  const weights::Checkpoint& checkpoint_;
  const std::vector<std::string>& prefixes_;
  const kernels::KernelTable& table_;
  Progress progress_;
  std::unordered_set<const weights::TensorInfo*> known_;  // read, or equal to one that is
  std::vector<std::byte> buffer_;
  std::vector<std::byte> gathered_;
  std::vector<std::byte> blocks_;
  tensor::CodeRows codes_;
  std::map<const kernels::WeightFormat*, std::uint64_t> bytes_of_;  // of linear layers
  LinearLimits limits_;
  const weights::DerivedTensor* derived_ = nullptr;  // whose reader is open
  std::unique_ptr<weights::RowReader> rows_;
  std::uint64_t bytes_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t bytes_total_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace coxswain::model
