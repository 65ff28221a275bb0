#pragma once
// StepProfile: what the time of the kernels goes to, by operation.
//
// It has a table whose entries call those of another one and take the time. They find the profile in the ExecContext
// that they are called with, so an ExecContext of such a table has to have it (ExecContext::set_profile). Two readings
// of the clock a call are all that it costs.
//
// Thread rule: as ExecContext.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace coxswain::kernels {

// Calls of one entry; of linear layers those of one shape.
struct OperationTime {
  std::string name;  // "attention"; "linear 2048>8192": inputs and outputs
  std::uint64_t calls = 0;
  double seconds = 0.0;
  double weight_bytes = 0.0;   // of linear layers: images that were multiplied, with their scales
  double multiply_adds = 0.0;  // of linear layers
};

class StepProfile {
 public:
  explicit StepProfile(const KernelTable& kernels);
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  // Lives as long as the profile.
  const KernelTable& kernels() const { return timed_; }
  // What was called since the last take(), what took most time first.
  std::vector<OperationTime> take();

  // For the entries.
  const KernelTable& wrapped() const { return wrapped_; }
  void add(std::size_t entry, double seconds) {
    ++entries_[entry].calls;
    entries_[entry].seconds += seconds;
  }
  void add(const LinearCall& call, double seconds);

 private:
  struct LinearShapeTime {
    std::size_t k = 0;
    std::size_t n = 0;
    bool gathers = false;
    OperationTime time;
  };

  const KernelTable& wrapped_;
  KernelTable timed_;
  std::vector<OperationTime> entries_;
  std::vector<LinearShapeTime> linear_;  // a handful in a model
};

}  // namespace coxswain::kernels
