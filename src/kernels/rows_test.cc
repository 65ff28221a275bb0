#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "kernels/test_util.h"
#include "tensor/dtype.h"

namespace coxswain::kernels {
namespace {

using ::testing::ElementsAre;
using testing::random_floats;
using testing::runnable_tables;
using testing::scalar_table;

constexpr std::size_t kSizes[] = {1, 7, 16, 17, 64, 100, 2048};

std::vector<std::byte> stored(const std::vector<float>& values, tensor::DType type) {
  std::vector<std::byte> out(values.size() * tensor::size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = type == tensor::DType::kBf16 ? tensor::float_to_bf16(values[i])
                                                            : tensor::float_to_f16(values[i]);
    if (type == tensor::DType::kF32) {
      std::memcpy(&out[i * 4], &values[i], 4);
    } else {
      std::memcpy(&out[i * 2], &half, 2);
    }
  }
  return out;
}

float widened(const std::byte* at, tensor::DType type) {
  float out = 0.0F;
  if (type == tensor::DType::kF32) {
    std::memcpy(&out, at, 4);
    return out;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, at, 2);
  return type == tensor::DType::kBf16 ? tensor::bf16_to_float(half) : tensor::f16_to_float(half);
}

void expect_looked_up(const KernelTable& table,
                      tensor::DType type,
                      std::size_t n,
                      bool accumulate) {
  constexpr std::size_t kStride = 2051;
  const std::vector<std::int32_t> ids = {3, 0, 4, 3};
  ExecContext exec(2);
  const auto rows = stored(random_floats(5 * n, 1, 3.0F), type);
  const auto before = random_floats(ids.size() * kStride, 2);
  std::vector<float> y = before;
  table.look_up(exec, {rows.data(), type, ids, y.data(), kStride, n, 1.7F, accumulate});
  for (std::size_t i = 0; i < y.size(); ++i) {
    float want = before[i];
    if (const std::size_t column = i % kStride; column < n) {
      const std::size_t from = static_cast<std::size_t>(ids[i / kStride]) * n + column;
      const float value = widened(rows.data() + from * tensor::size_of(type), type) * 1.7F;
      want = accumulate ? value + before[i] : value;
    }
    ASSERT_EQ(y[i], want) << table.id << " n " << n << " at " << i;
  }
}

TEST(LookUp, WidensScalesAndAddsExactly) {
  for (const KernelTable* table : runnable_tables()) {
    for (const tensor::DType type :
         {tensor::DType::kF32, tensor::DType::kBf16, tensor::DType::kF16}) {
      for (const std::size_t n : kSizes) {
        expect_looked_up(*table, type, n, false);
        expect_looked_up(*table, type, n, true);
      }
    }
  }
}

TEST(LookUp, OfAPackedMatrixGivesItsRows) {
  constexpr std::size_t kRows = 70;
  constexpr std::size_t kWidth = 37;
  const std::vector<std::int32_t> ids = {69, 0, 33, 69};
  const auto weights = stored(random_floats(kRows * kWidth, 3), tensor::DType::kBf16);
  ExecContext exec(2);
  for (const KernelTable* table : runnable_tables()) {
    // Two pieces, as where a head's formats differ.
    constexpr std::size_t kFirst = 33;
    const LinearOps& ops = table->ops(formats::kBfloat16);
    const DenseRows first{weights.data(), tensor::DType::kBf16, kFirst};
    const DenseRows second{
        weights.data() + kFirst * kWidth * 2, tensor::DType::kBf16, kRows - kFirst};
    std::vector<MatrixImage> pieces;
    pieces.push_back(pack_matrix(ops, kWidth, {&first, 1}).value());
    pieces.push_back(pack_matrix(ops, kWidth, {&second, 1}).value());
    std::vector<float> y(ids.size() * kWidth);
    table->look_up_packed(exec, {pieces, ids, y.data(), kWidth, 3.0F});
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t from = static_cast<std::size_t>(ids[i / kWidth]) * kWidth + i % kWidth;
      ASSERT_EQ(y[i], widened(weights.data() + from * 2, tensor::DType::kBf16) * 3.0F) << table->id;
    }
  }
}

struct Choice {
  std::vector<std::uint32_t> ids;
  std::vector<float> weights;
};

Choice choose(const KernelTable& table,
              std::vector<float> scores,
              std::size_t m,
              std::size_t n_used,
              Routing routing,
              bool normalize) {
  ExecContext exec(2);
  Choice out{std::vector<std::uint32_t>(m * n_used), std::vector<float>(m * n_used)};
  ChooseExpertsArgs args;
  args.scores = scores.data();
  args.m = m;
  args.n_experts = scores.size() / m;
  args.n_used = n_used;
  args.routing = routing;
  args.normalize = normalize;
  args.ids = out.ids.data();
  args.weights = out.weights.data();
  table.choose_experts(exec, args);
  return out;
}

// What the definition says, in double precision.
Choice chosen_by_definition(
    const float* scores, std::size_t n, std::size_t n_used, Routing routing, bool normalize) {
  std::vector<std::uint32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0U);
  std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
  const double top = scores[ids[0]];
  const std::size_t summed = routing == Routing::kSoftmaxThenTop && !normalize ? n : n_used;
  double sum = 0.0;
  for (std::size_t i = 0; i < summed; ++i) sum += std::exp(scores[ids[i]] - top);
  ids.resize(n_used);
  std::sort(ids.begin(), ids.end());
  Choice out{ids, {}};
  for (const std::uint32_t e : ids)
    out.weights.push_back(static_cast<float>(std::exp(scores[e] - top) / sum));
  return out;
}

void expect_chosen(
    const KernelTable& table, std::size_t n, std::size_t n_used, Routing routing, bool normalize) {
  constexpr std::size_t kRows = 33;
  const auto scores = random_floats(kRows * n, 5, 4.0F);
  const Choice got = choose(table, scores, kRows, n_used, routing, normalize);
  for (std::size_t row = 0; row < kRows; ++row) {
    const float* of_row = scores.data() + row * n;
    const Choice want = chosen_by_definition(of_row, n, n_used, routing, normalize);
    const Choice alone = choose(table, {of_row, of_row + n}, 1, n_used, routing, normalize);
    for (std::size_t j = 0; j < n_used; ++j) {
      ASSERT_EQ(got.ids[row * n_used + j], want.ids[j]);
      ASSERT_NEAR(got.weights[row * n_used + j], want.weights[j], 2e-6);
      ASSERT_EQ(got.ids[row * n_used + j], alone.ids[j]);
      ASSERT_EQ(got.weights[row * n_used + j], alone.weights[j]);
    }
  }
}

TEST(ChooseExperts, AgreesWithTheDefinitionAndARowAlone) {
  for (const KernelTable* table : runnable_tables()) {
    SCOPED_TRACE(table->id);
    for (const auto& [n, n_used] :
         {std::pair<std::size_t, std::size_t>{1, 1}, {5, 2}, {8, 8}, {33, 4}, {128, 8}}) {
      expect_chosen(*table, n, n_used, Routing::kSoftmaxThenTop, false);
      expect_chosen(*table, n, n_used, Routing::kSoftmaxThenTop, true);
      expect_chosen(*table, n, n_used, Routing::kTopThenSoftmax, false);
    }
  }
}

TEST(ChooseExperts, OfEqualScoresTheLowerIdWins) {
  for (const KernelTable* table : runnable_tables()) {
    for (const Routing routing : {Routing::kSoftmaxThenTop, Routing::kTopThenSoftmax}) {
      const Choice choice =
          choose(*table, {1.0F, 2.0F, 1.0F, 2.0F, 2.0F, 1.0F}, 1, 4, routing, false);
      EXPECT_THAT(choice.ids, ElementsAre(0U, 1U, 3U, 4U)) << table->id;
    }
  }
}

// Whatever a row holds, its ids are distinct experts: they index weights.
TEST(ChooseExperts, ARowOfNanStaysWithinTheExperts) {
  for (const KernelTable* table : runnable_tables()) {
    const Choice choice =
        choose(*table, {NAN, 1.0F, NAN, 2.0F, NAN}, 1, 3, Routing::kTopThenSoftmax, false);
    EXPECT_LT(choice.ids[0], choice.ids[1]);
    EXPECT_LT(choice.ids[1], choice.ids[2]);
    EXPECT_LT(choice.ids[2], 5U);
  }
}

TEST(GroupRows, GivesEachExpertItsRowsInOrder) {
  const std::vector<std::uint32_t> ids = {0, 3, 1, 3, 0, 1};  // three rows, two experts each
  std::vector<std::uint32_t> begin(5);
  std::vector<std::uint32_t> slots(6);
  std::vector<std::uint32_t> rows(6);
  ExecContext exec(1);
  for (const KernelTable* table : runnable_tables()) {
    table->group_rows(exec, {ids.data(), 3, 2, 4, begin.data(), slots.data(), rows.data()});
    EXPECT_THAT(begin, ElementsAre(0U, 2U, 4U, 4U, 6U));
    EXPECT_THAT(slots, ElementsAre(0U, 4U, 2U, 5U, 1U, 3U));
    EXPECT_THAT(rows, ElementsAre(0U, 2U, 1U, 2U, 0U, 1U));
  }
}

void expect_gathered(const KernelTable& table, std::size_t n, bool in_order) {
  const std::vector<std::uint32_t> rows = {4, 0, 4};
  ExecContext exec(2);
  const auto x = random_floats(5 * (n + 1), 1);
  std::vector<float> y(3 * (n + 2), -7.0F);
  table.gather(exec, {x.data(), n + 1, in_order ? nullptr : rows.data(), y.data(), n + 2, 3, n});
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / (n + 2);
    const std::size_t column = i % (n + 2);
    const std::size_t from = in_order ? row : rows[row];
    ASSERT_EQ(y[i], column < n ? x[from * (n + 1) + column] : -7.0F) << table.id;
  }
}

TEST(Gather, TakesRowsInTheOrderGivenOrTheirOwn) {
  for (const KernelTable* table : runnable_tables()) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{40000}}) {
      expect_gathered(*table, n, false);
      expect_gathered(*table, n, true);
    }
  }
}

struct Combination {
  static constexpr std::size_t kRows = 9;
  static constexpr std::size_t kUsed = 3;

  explicit Combination(std::size_t width)
      : n(width),
        x(random_floats(kRows * kUsed * (n + 3), 1)),
        weights(random_floats(kRows * kUsed, 2)),
        before(random_floats(kRows * (n + 5), 3)),
        slots(kRows * kUsed) {
    for (std::size_t i = 0; i < slots.size(); ++i)
      slots[i] = static_cast<std::uint32_t>(i * 7 % slots.size());
  }

  float defined(std::size_t row, std::size_t column, bool accumulate) const {
    float out = accumulate ? before[row * (n + 5) + column] : 0.0F;
    for (std::size_t j = 0; j < kUsed; ++j)
      out += weights[row * kUsed + j] * x[slots[row * kUsed + j] * (n + 3) + column];
    return out;
  }

  std::vector<float> run(const KernelTable& table, bool accumulate) const {
    ExecContext exec(2);
    std::vector<float> y = before;
    table.combine(exec,
                  {x.data(),
                   n + 3,
                   slots.data(),
                   weights.data(),
                   kUsed,
                   y.data(),
                   n + 5,
                   kRows,
                   n,
                   accumulate});
    return y;
  }

  std::size_t n;
  std::vector<float> x, weights, before;
  std::vector<std::uint32_t> slots;
};

TEST(Combine, AddsWeightedRowsInOrderOnEverySet) {
  for (const std::size_t n : kSizes) {
    const Combination c(n);
    for (const bool accumulate : {false, true}) {
      std::vector<float> want = c.before;
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (i % (n + 5) < n) want[i] = c.defined(i / (n + 5), i % (n + 5), accumulate);
      }
      for (const KernelTable* table : runnable_tables())
        ASSERT_EQ(c.run(*table, accumulate), want) << table->id << " n " << n;
    }
  }
}

}  // namespace
}  // namespace coxswain::kernels
