#pragma once
// WeightReader: finds the tensors of a TensorMap in a checkpoint, checks names, shapes and types, and hands their rows
// on: as values or as the codes that are stored. Rows are read and hashed in slices, which the threads of an
// ExecContext take in turn: each slice stays in the near caches of one core, and what is held is a slice for each
// thread (and a whole matrix where a file stores it transposed, or rows of several layers in turns). Errors name file,
// tensor and rule.
//
// Thread rule: one thread, which is one of those of the context. What takes rows is called by any of these.

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "base/function_ref.h"
#include "base/mutex.h"
#include "kernels/exec_context.h"
#include "kernels/weight_format.h"
#include "model/tensor_map.h"
#include "tensor/quant.h"
#include "weights/checkpoint.h"

namespace coxswain::model {

class WeightReader {
 public:
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;
  // Called by any worker, for different rows at the same time.
  using TakeRows = base::FunctionRef<void(std::size_t row_begin, const kernels::DenseRows& rows)>;
  using TakeCodes = base::FunctionRef<void(std::size_t row_begin, const tensor::QuantRows& rows)>;

  // All references must outlive the reader, and so must `exec`; null: the calling thread works alone. `progress` is
  // called by the calling thread.
  WeightReader(const weights::Checkpoint& checkpoint,
               const std::vector<std::string>& prefixes,
               Progress progress,
               kernels::ExecContext* exec);

  // The type of the first tensor of `map`; of quantised ones what their values are decoded to.
  Result<tensor::DType> stored_type(const MatrixMap& map) const;
  // File and name of the first tensor of `map`, for errors.
  Result<std::string> name_of(const MatrixMap& map) const;
  // Whether the other name of `rows` holds other values than the first. False unless both are there.
  Result<bool> other_name_differs(const Rows& rows);
  // Whether a tensor of `map` is stored as codes.
  bool is_quantised(const MatrixMap& map) const;
  // How the rows of the first tensor of `map` can be had as codes; bits are 0 where they cannot.
  Result<tensor::QuantScheme> scheme_of(const MatrixMap& map);

  // Hands all rows of `map` to `take`.
  Status for_each_slice(const MatrixMap& map, TakeRows take);
  // The same as codes. REQUIRES: one tensor, which scheme_of() has a scheme for.
  Status for_each_code_slice(const MatrixMap& map, TakeCodes take);
  // Counts the tensors of `map` as read.
  Status pass(const MatrixMap& map);
  // All values of a tensor that has `size` of them.
  Result<std::vector<float>> floats(const std::string& name, std::uint64_t size);
  // A scale under the first of these names that is there; 1 where none is. Errors: it is not a finite number above 0.
  Result<float> scale_or_one(std::initializer_list<std::string> names);
  // [map.n()], or empty where no row has any.
  Result<std::vector<float>> bias(const MatrixMap& map);

  // Names of tensors that nothing asked for: neither masks and tables that files carry along for
  // other programs, nor types that no weight has.
  std::vector<std::string> unread() const;
  // Of every byte read, whatever the order.
  std::uint64_t fingerprint() const { return fingerprint_; }

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

  const weights::Checkpoint& checkpoint_;
  const std::vector<std::string>& prefixes_;
  Progress progress_;
  kernels::ExecContext* exec_;
  std::unordered_set<const weights::TensorInfo*> known_;  // read, or equal to one that is
  std::vector<Room> rooms_;                               // by worker
  std::vector<std::byte> whole_;                          // a matrix whose rows are gathered
  std::pair<const weights::TensorInfo*, std::uint64_t> whole_of_;  // tensor and Rows::index
  const weights::DerivedTensor* derived_ = nullptr;                // whose reader is open
  base::Mutex rows_mu_;
  std::unique_ptr<weights::RowReader> rows_ GUARDED_BY(rows_mu_);
  std::uint64_t bytes_total_ = 0;
  std::atomic<std::uint64_t> bytes_read_{0};
  std::atomic<std::uint64_t> fingerprint_{0};
};

}  // namespace coxswain::model
