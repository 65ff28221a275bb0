// The AMX kernels as they are shipped: instructions on tiles where the CPU has them, through the
// trap (testing/tile_trap.h) where it has AVX-512 with BF16 alone.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu_features.h"
#include "kernels/kernel_table.h"
#include "kernels/test_util.h"
#include "kernels/testing/tile_trap.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::scalar_table;

struct Shape {
  std::size_t m, n, k;
};

struct Problem {
  Shape s;
  std::vector<float> x, w;

  explicit Problem(const Shape& shape)
      : s(shape), x(random_floats(s.m * s.k, 1)), w(random_floats(s.n * s.k, 2)) {}

  MatrixImage pack(const KernelTable& table, const WeightFormat& format) const {
    const DenseRows piece{reinterpret_cast<const std::byte*>(w.data()), DType::kF32, s.n};
    return pack_matrix(table.ops(format), s.k, {&piece, 1}).value();
  }
};

std::vector<float> run_rows(const KernelTable& table,
                            const MatrixImage& w,
                            const Problem& p,
                            std::size_t row,
                            std::size_t m,
                            std::size_t n_threads = 2) {
  ExecContext exec(n_threads);
  std::vector<float> y(m * p.s.n);
  testing::run_linear(
      table, exec, {p.x.data() + row * p.s.k, p.s.k, m, p.s.k}, {&w, y.data(), p.s.n});
  return y;
}

// Every number of rows that one or two tiles, and two tile calls and a bit, are made of; outputs
// and inputs beside the sizes of panels, steps and blocks of k; rows of several chunks.
std::vector<Shape> shapes() {
  constexpr std::size_t kOutputs[] = {1, 15, 33, 64, 65, 70, 129};
  constexpr std::size_t kInputs[] = {1, 31, 63, 64, 65, 130, 257};
  std::vector<Shape> out{{3, 10, 9000}, {50, 10, 4300}, {40, 20, 2048}, {600, 33, 70}};
  for (std::size_t m = 1; m <= 70; ++m) out.push_back({m, kOutputs[m % 7], kInputs[m / 7 % 7]});
  return out;
}

class AmxLinear : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto table = kernel_table(Isa::kAmx);
    if (!table.ok()) GTEST_SKIP() << "neither tiles nor AVX-512 with BF16, which the trap needs";
    table_ = *table;
  }
  const KernelTable* table_ = nullptr;
};

TEST_F(AmxLinear, Int8GivesTheBitsOfTheScalarSet) {
  for (const Shape& shape : shapes()) {
    const Problem p(shape);
    const MatrixImage w = p.pack(*table_, formats::kInt8);
    const std::vector<float> want =
        run_rows(scalar_table(), p.pack(scalar_table(), formats::kInt8), p, 0, shape.m);
    for (const std::size_t n_threads : {1U, 2U}) {
      EXPECT_EQ(run_rows(*table_, w, p, 0, shape.m, n_threads), want)
          << "m " << shape.m << " n " << shape.n << " k " << shape.k;
    }
  }
}

// One chain over steps of 32 inputs: the even products of a step, its odd ones, their sum, that
// added to the output.
float chain_of(const Problem& p, std::size_t row, std::size_t output) {
  const auto rounded = [](float value) {
    return tensor::bf16_to_float(tensor::float_to_bf16(value));
  };
  const float* x = p.x.data() + row * p.s.k;
  const float* w = p.w.data() + output * p.s.k;
  float sum = 0.0F;
  for (std::size_t k = 0; k < p.s.k; k += 32) {
    float part[2] = {0.0F, 0.0F};
    for (std::size_t j = k; j < std::min(p.s.k, k + 32); ++j)
      part[j % 2] = std::fma(rounded(x[j]), rounded(w[j]), part[j % 2]);
    sum += part[0] + part[1];
  }
  return sum;
}

TEST_F(AmxLinear, Bf16IsOneChainOfTileProducts) {
  for (const Shape& shape : shapes()) {
    const Problem p(shape);
    const MatrixImage w = p.pack(*table_, formats::kBfloat16);
    const std::vector<float> got = run_rows(*table_, w, p, 0, shape.m, 1);
    EXPECT_EQ(run_rows(*table_, w, p, 0, shape.m, 2), got);
    for (std::size_t i = 0; i < got.size(); i += 7) {
      ASSERT_EQ(got[i], chain_of(p, i / shape.n, i % shape.n))
          << "m " << shape.m << " n " << shape.n << " k " << shape.k << " at " << i;
    }
  }
}

// Rows that go through tiles of 16 and 32 rows, in chunks and alone.
TEST_F(AmxLinear, ARowDoesNotDependOnTheRowsBesideIt) {
  const Problem p({300, 66, 2200});
  for (const WeightFormat* format : {&formats::kBfloat16, &formats::kInt8}) {
    const MatrixImage w = p.pack(*table_, *format);
    const std::vector<float> all = run_rows(*table_, w, p, 0, p.s.m);
    for (const std::size_t m : {1U, 6U, 7U, 15U, 16U, 17U, 31U, 32U, 33U, 97U, 257U}) {
      const std::size_t row = p.s.m - m;
      const std::vector<float> some = run_rows(*table_, w, p, row, m);
      EXPECT_TRUE(std::equal(
          some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(row * p.s.n)))
          << format->name << " m " << m;
    }
  }
}

// What a call costs in tile instructions, for the shares of the peak in docs/kernels.md.
class AmxCounts : public AmxLinear {
 protected:
  void SetUp() override {
    AmxLinear::SetUp();
    if (!IsSkipped() && !testing::tiles_are_emulated())
      GTEST_SKIP() << "tiles of this CPU count nothing";
  }
  testing::TileCounts count(const WeightFormat& format, const Shape& shape) const {
    const Problem p(shape);
    const MatrixImage w = p.pack(*table_, format);
    const testing::TileCounts before = testing::tile_counts();
    run_rows(*table_, w, p, 0, shape.m);
    const testing::TileCounts after = testing::tile_counts();
    testing::TileCounts out;
    out.configurations = after.configurations - before.configurations;
    out.releases = after.releases - before.releases;
    out.zeros = after.zeros - before.zeros;
    out.loads = after.loads - before.loads;
    out.stores = after.stores - before.stores;
    out.products = after.products - before.products;
    return out;
  }
};

// Rows by four panels by 64 steps of k. Sums of 32 rows by a panel lie in memory between blocks of 8 steps.
TEST_F(AmxCounts, FullTilesLoadOnceForEachProduct) {
  for (const auto& [format, k] :
       {std::pair{&formats::kBfloat16, 2048U}, std::pair{&formats::kInt8, 4096U}}) {
    for (const std::size_t rows : {128U, 320U}) {
      const testing::TileCounts counts = count(*format, {rows, 128, k});
      const std::uint64_t products = rows / 16 * 128 / 16 * 64;
      const std::uint64_t sums = products / 8;
      const std::uint64_t zeros = products / 64;
      EXPECT_EQ(counts.products, products) << format->name;
      EXPECT_EQ(counts.loads, products + sums - zeros) << format->name;
      EXPECT_EQ(counts.zeros, zeros) << format->name;
      EXPECT_EQ(counts.stores, sums) << format->name;
      EXPECT_EQ(counts.configurations, 4U * 64 / 8) << format->name;
      EXPECT_EQ(counts.releases, counts.configurations) << format->name;
    }
  }
}

// Up to 16 rows: each weight is loaded once, activations once for the 64 outputs of two panels.
TEST_F(AmxCounts, FewRowsLoadWeightsOnce) {
  const testing::TileCounts counts = count(formats::kBfloat16, {9, 2048, 2048});
  const std::uint64_t products = 2048 / 16 * 64;
  EXPECT_EQ(counts.products, products);
  EXPECT_EQ(counts.loads, products * 5 / 4);
  EXPECT_EQ(counts.stores, 2048U / 16);
  EXPECT_EQ(count(formats::kInt8, {6, 2048, 4096}).products, products);
}

}  // namespace
}  // namespace coxswain::kernels
