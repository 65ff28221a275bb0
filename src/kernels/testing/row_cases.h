#pragma once
// Every entry of KernelTable that computes rows, in one form: which rows go in, what comes out for each. Tests then
// state once what holds for all: a row's outputs depend on this row alone.
//
// Inputs and outputs lie at odd addresses, with gaps between rows that hold a mark: what reads a gap has a NaN, what
// writes one fails the test.
//
// Thread rule: one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace coxswain::kernels::testing {

// Rows by content: equal ids stand for equal rows.
inline constexpr std::uint32_t kRowIds = 67;

struct BrokenRow {
  std::size_t row = 0;  // place in the batch
  float value = 0.0F;   // some of its inputs hold this
};

struct Batch {
  std::vector<std::uint32_t> ids;  // each below kRowIds
  std::optional<BrokenRow> broken = {};
};

struct RowCase {
  std::string name;
  // As the entry counts them against kParallelValues; 0: it does not.
  std::size_t values_per_row = 0;
  std::size_t rows_max = 65;  // of sweeps over every number of rows
  bool same_on_every_set = false;
  bool can_break = true;  // has inputs that are floats of the row
  bool nan_shows = true;  // no NaN is passed over
  // Outputs of each row, [ids.size(), width] with a width of the case's own.
  std::function<std::vector<float>(const KernelTable&, ExecContext&, const Batch&)> run;
};

const std::vector<RowCase>& row_cases();

}  // namespace coxswain::kernels::testing
