// What holds for every entry that computes rows, on every set: a row's outputs are the bits of that row alone, for
// every number of rows, on both sides of the size from which threads share the work, on 1 to 3 threads, in any order
// of tasks; and a NaN or an infinity in one row changes no other.

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/for_rows.h"
#include "kernels/test_util.h"
#include "kernels/testing/row_cases.h"

namespace coxswain::kernels {
namespace {

using testing::Batch;
using testing::kRowIds;
using testing::row_cases;
using testing::RowCase;
using testing::runnable_tables;
using testing::scalar_table;

// m rows, other ones for other m.
Batch some_rows(std::size_t m) {
  Batch out;
  for (std::size_t i = 0; i < m; ++i)
    out.ids.push_back(static_cast<std::uint32_t>((m * 7 + i * 5) % kRowIds));
  return out;
}

// The outputs of each id, alone on one thread.
std::vector<std::vector<float>> rows_alone(const KernelTable& table, const RowCase& entry) {
  ExecContext exec(1);
  std::vector<std::vector<float>> out;
  for (std::uint32_t id = 0; id < kRowIds; ++id)
    out.push_back(entry.run(table, exec, {.ids = {id}}));
  return out;
}

bool same_bits(const float* a, const std::vector<float>& b) {
  return std::equal(b.begin(), b.end(), a, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

// The first row whose outputs are not those of the row alone, `but` left out; the batch's size if there is none.
std::size_t first_wrong(const std::vector<float>& got,
                        const Batch& batch,
                        const std::vector<std::vector<float>>& alone,
                        std::size_t but) {
  const std::size_t width = alone[0].size();
  EXPECT_EQ(got.size(), width * batch.ids.size());
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    if (i != but && !same_bits(got.data() + i * width, alone[batch.ids[i]])) return i;
  }
  return batch.ids.size();
}

class RowLaws : public ::testing::TestWithParam<std::size_t> {
 protected:
  const RowCase& entry() const { return row_cases()[GetParam()]; }

  void expect_rows_of(const KernelTable& table,
                      const std::vector<std::vector<float>>& alone,
                      std::size_t m,
                      std::size_t n_threads) {
    ExecContext exec(n_threads);
    exec.pool().shuffle_tasks(m);
    const Batch batch = some_rows(m);
    EXPECT_EQ(first_wrong(entry().run(table, exec, batch), batch, alone, m), m)
        << table.id << ", " << m << " rows, " << n_threads << " threads";
  }

  void expect_contained(const KernelTable& table,
                        const std::vector<std::vector<float>>& alone,
                        std::size_t m,
                        testing::BrokenRow broken) {
    ExecContext exec(1 + m % 3);
    Batch batch = some_rows(m);
    batch.broken = broken;
    const std::vector<float> got = entry().run(table, exec, batch);
    EXPECT_EQ(first_wrong(got, batch, alone, broken.row), m)
        << table.id << ", " << broken.value << " in row " << broken.row << " of " << m;
    const std::vector<float>& clean = alone[batch.ids[broken.row]];
    if (std::isnan(broken.value) && entry().nan_shows) {
      EXPECT_FALSE(same_bits(got.data() + broken.row * clean.size(), clean))
          << "nothing was broken";
    }
  }
};

TEST_P(RowLaws, EveryNumberOfRowsGivesARowTheBitsOfItAlone) {
  // On both sides of what is worth waking threads.
  const std::size_t border =
      (kParallelValues + entry().values_per_row - 1) / entry().values_per_row;
  for (const KernelTable* table : runnable_tables()) {
    const auto alone = rows_alone(*table, entry());
    for (std::size_t m = 1; m <= entry().rows_max; ++m) expect_rows_of(*table, alone, m, 1 + m % 3);
    for (const std::size_t n_threads : {1U, 2U, 3U}) {
      for (std::size_t m = border > 1 ? border - 1 : 1; m <= border + 1; ++m)
        expect_rows_of(*table, alone, m, n_threads);
    }
  }
}

class BrokenRows : public RowLaws {};

TEST_P(BrokenRows, ABrokenRowChangesNoOther) {
  for (const KernelTable* table : runnable_tables()) {
    const auto alone = rows_alone(*table, entry());
    for (const float value : {NAN, INFINITY, -INFINITY}) {
      for (const std::size_t m : {std::size_t{3}, entry().rows_max / 2, entry().rows_max}) {
        for (const std::size_t row : {std::size_t{0}, m / 2, m - 1})
          expect_contained(*table, alone, m, {row, value});
      }
    }
  }
}

class PromisedRows : public RowLaws {};

TEST_P(PromisedRows, WhereBitsArePromisedEverySetGivesTheSame) {
  const auto want = rows_alone(scalar_table(), entry());
  for (const KernelTable* table : runnable_tables()) {
    ExecContext exec(2);
    for (std::size_t m = 1; m <= entry().rows_max; m += 8) {
      const Batch batch = some_rows(m);
      EXPECT_EQ(first_wrong(entry().run(*table, exec, batch), batch, want, m), m)
          << table->id << ", " << m << " rows";
    }
  }
}

std::vector<std::size_t> cases_with(bool RowCase::*property) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < row_cases().size(); ++i) {
    if (row_cases()[i].*property) out.push_back(i);
  }
  return out;
}

std::string name_of_case(const ::testing::TestParamInfo<std::size_t>& entry) {
  std::string name = row_cases()[entry.param].name;
  const auto odd = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; };
  std::replace_if(name.begin(), name.end(), odd, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Entries,
                         RowLaws,
                         ::testing::Range(std::size_t{0}, row_cases().size()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Entries,
                         BrokenRows,
                         ::testing::ValuesIn(cases_with(&RowCase::can_break)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Entries,
                         PromisedRows,
                         ::testing::ValuesIn(cases_with(&RowCase::same_on_every_set)),
                         name_of_case);

}  // namespace
}  // namespace coxswain::kernels
