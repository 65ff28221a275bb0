#pragma once
// WeightLoader: fills weights from a checkpoint through a TensorMap. Rows are read, hashed and packed in slices, which
// the threads of an ExecContext take in turn: each slice stays in the near caches of one core, and the peak of memory
// is the packed size plus a slice for each thread (and a whole matrix where a file stores it transposed, or rows of
// several layers in turns). What is made does not depend on the number of threads. Names, shapes and types are checked
// here; errors name file, tensor and rule.
//
// Thread rule: one thread, which is one of those of the context.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include <coxswain/status.h>

#include "base/function_ref.h"
#include "base/mutex.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "model/tensor_map.h"
#include "model/weight_parts.h"
#include "weights/checkpoint.h"

namespace coxswain::model {

class WeightLoader {
 public:
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

  // All references must outlive the loader, and so must `exec`; null: the calling thread works alone. `progress` is
  // called by the calling thread.
  WeightLoader(const weights::Checkpoint& checkpoint,
               const std::vector<std::string>& prefixes,
               const kernels::KernelTable& table,
               Progress progress,
               kernels::ExecContext* exec = nullptr);

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

  // What is made from now on belongs to this part of the model, for shares().
  void begin_part(std::string name);
  // Of everything made so far: parts in the order in which they were begun, most bytes first.
  std::vector<WeightShare> shares() const;

  std::uint64_t bytes() const;  // held by everything made so far
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
  // Of one worker.
  struct Room {
    std::vector<std::byte> values;
    std::vector<std::byte> blocks;
    tensor::CodeRows codes;
  };
  // Called by any worker, for different rows at the same time.
  using TakeRows = base::FunctionRef<void(std::size_t row_begin, const kernels::DenseRows& rows)>;
  using Task = base::FunctionRef<Status(std::size_t task, Room& room)>;

  weights::Checkpoint::Located find(const std::string& name) const;
  Result<Source> source(const Rows& rows, std::uint64_t k) const;
  // The same, about to be read.
  Result<Source> open(const Rows& rows, std::uint64_t k);
  // Shares the tasks out. Of errors the one of the lowest task counts.
  Status run(std::size_t n_tasks, Task task);
  Status run_threaded(std::size_t n_tasks, Task task);
  void report_progress() const;

  // These four may be called by any worker; bytes count for the fingerprint.
  Status read(const weights::Checkpoint::Located& at,
              std::uint64_t offset,
              std::span<std::byte> out);
  // Values of a tensor from `first` on, as its type or, of blocks and derived tensors, as float32; whole blocks or
  // rows, or an error.
  Status read_values(const Source& source,
                     std::uint64_t first,
                     std::span<std::byte> out,
                     std::vector<std::byte>& blocks);
  // The same of a derived tensor, which is open.
  Status derive_values(const Source& source, std::uint64_t first, std::span<float> out);
  // Rows [first, first + n) of all matrices of the tensor, to room.codes.
  Status read_codes(
      const Source& source, std::uint64_t k, std::uint64_t first, std::uint64_t n, Room& room);

  Status open_derived(const weights::DerivedTensor& derived);
  // How the rows can be had as codes; bits are 0 where they cannot.
  Result<tensor::QuantScheme> scheme_of(const Source& source, std::uint64_t k);
  // Rows of one tensor, as they are stored or as `otherwise`.
  Result<kernels::MatrixImage> image_as_stored(const MatrixMap& map,
                                               const kernels::WeightFormat& otherwise);
  Result<kernels::MatrixImage> image_of_codes(const MatrixMap& map, const kernels::LinearOps& ops);
  Result<kernels::MatrixImage> image_of_values(const MatrixMap& map,
                                               const kernels::WeightFormat& format);
  // Hands all rows of `map` to `take`, slice by slice.
  Status for_each_slice(const MatrixMap& map, TakeRows take);
  Status straight_slices(const Rows& rows,
                         const Source& source,
                         std::uint64_t k,
                         std::size_t row_begin,
                         TakeRows take);
  Status read_whole(const Rows& rows, const Source& source, std::uint64_t k);
  Status gathered_slices(const Rows& rows,
                         const Source& source,
                         std::uint64_t k,
                         std::size_t row_begin,
                         TakeRows take);
  void count(std::string_view format, std::uint64_t bytes);
  Result<std::vector<float>> floats(const std::string& name, std::uint64_t size);
  Result<std::vector<float>> bias(const MatrixMap& map);

  const weights::Checkpoint& checkpoint_;
  const std::vector<std::string>& prefixes_;
  const kernels::KernelTable& table_;
  Progress progress_;
  kernels::ExecContext* exec_;
  std::unordered_set<const weights::TensorInfo*> known_;  // read, or equal to one that is
  std::vector<Room> rooms_;                               // by worker
  std::vector<std::byte> whole_;                          // a matrix whose rows are gathered
  std::pair<const weights::TensorInfo*, std::uint64_t> whole_of_;   // tensor and Rows::index
  std::map<const kernels::WeightFormat*, std::uint64_t> bytes_of_;  // of linear layers
  LinearLimits limits_;
  const weights::DerivedTensor* derived_ = nullptr;  // whose reader is open
  base::Mutex rows_mu_;
  std::unique_ptr<weights::RowReader> rows_ GUARDED_BY(rows_mu_);
  std::vector<std::pair<std::string, std::map<std::string, std::uint64_t, std::less<>>>> parts_;
  std::uint64_t bytes_total_ = 0;
  std::atomic<std::uint64_t> bytes_read_{0};
  std::atomic<std::uint64_t> fingerprint_{0};
};

}  // namespace coxswain::model
