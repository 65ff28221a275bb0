#pragma once
// Splits work over the rows of a step, where it is worth waking a thread.
//
// Thread rule: one caller at a time for each context; bodies run on its threads.

#include <algorithm>
#include <cstddef>

#include "base/function_ref.h"
#include "kernels/exec_context.h"

namespace coxswain::kernels {

// About 20 us of work for one thread: several times the cost of a parallel region.
inline constexpr std::size_t kParallelValues = std::size_t{1} << 16;

// body(row) for every row, each row once; rows run at the same time where all values together are many.
inline void for_rows(ExecContext& exec,
                     std::size_t n_rows,
                     std::size_t values_per_row,
                     base::FunctionRef<void(std::size_t)> body) {
  const std::size_t n_tasks = n_rows * values_per_row < kParallelValues
                                  ? std::min<std::size_t>(n_rows, 1)
                                  : std::min(n_rows, exec.n_threads() * 4);
  exec.pool().run(n_tasks, [&](std::size_t task, std::size_t) {
    for (std::size_t row = n_rows * task / n_tasks; row < n_rows * (task + 1) / n_tasks; ++row)
      body(row);
  });
}

}  // namespace coxswain::kernels
