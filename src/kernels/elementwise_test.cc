#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::runnable_tables;

constexpr std::size_t kSizes[] = {1, 7, 16, 17, 64, 100, 2048};

enum class NormKind { kRms, kLayer };

// One row of x, `weight.size()` values, as the definition normalises it.
void expect_normalised(std::span<const float> y,
                       std::span<const float> x,
                       std::span<const float> weight,
                       std::span<const float> bias,
                       NormKind kind) {
  const double n = static_cast<double>(x.size());
  double mean = 0.0;
  if (kind == NormKind::kLayer) {
    for (const float v : x) mean += static_cast<double>(v) / n;
  }
  double square = 0.0;
  for (const float v : x) square += (v - mean) * (v - mean) / n;
  const double inverse = 1.0 / std::sqrt(square + 1e-5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = (x[i] - mean) * inverse * (1.0 + static_cast<double>(weight[i])) +
                        static_cast<double>(bias[i]);
    // Rounding of the mean is magnified where the row hardly varies (n = 1: by 1 / sqrt(epsilon)).
    const double tolerance = 1e-5 * (1.0 + std::fabs(want)) + 1e-6 * inverse;
    ASSERT_NEAR(y[i], want, tolerance) << "n " << x.size() << " at " << i;
  }
}

void expect_norm_of(const KernelTable& table, std::size_t n, NormKind kind, bool per_group) {
  constexpr std::size_t kRows = 3;
  constexpr std::size_t kGroups = 2;
  base::ThreadPool pool(2);
  const auto x = random_floats(kRows * n * kGroups, 1, 3.0F);
  const auto weight = random_floats(n * kGroups, 2);
  const auto bias = random_floats(n * kGroups, 3);
  std::vector<float> y(x.size());
  NormArgs args{x.data(),
                n * kGroups,
                y.data(),
                n * kGroups,
                kRows,
                n,
                weight.data(),
                bias.data(),
                1e-5F,
                1.0F,
                kGroups,
                per_group};
  (kind == NormKind::kLayer ? table.layer_norm : table.rms_norm)(pool, args);
  for (std::size_t v = 0; v < kRows * kGroups; ++v) {
    const std::size_t shift = per_group ? v % kGroups * n : 0;
    expect_normalised(std::span(y).subspan(v * n, n),
                      std::span(x).subspan(v * n, n),
                      std::span(weight).subspan(shift, n),
                      std::span(bias).subspan(shift, n),
                      kind);
  }
}

TEST(Norm, RmsAndLayerAgreeWithTheDefinition) {
  for (const KernelTable* table : runnable_tables()) {
    SCOPED_TRACE(table->id);
    for (const std::size_t n : kSizes) {
      for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
        expect_norm_of(*table, n, kind, false);
        expect_norm_of(*table, n, kind, true);
      }
    }
  }
}

TEST(Norm, WithoutWeightInPlace) {
  base::ThreadPool pool(1);
  for (const KernelTable* table : runnable_tables()) {
    std::vector<float> x = {3.0F, 4.0F, 0.0F};
    NormArgs args;
    args.x = x.data();
    args.y = x.data();
    args.x_stride = args.y_stride = args.n = 3;
    args.m = 1;
    args.epsilon = 0.0F;
    table->rms_norm(pool, args);
    EXPECT_NEAR(x[0], 3.0 / std::sqrt(25.0 / 3.0), 1e-6);
    EXPECT_NEAR(x[1], 4.0 / std::sqrt(25.0 / 3.0), 1e-6);
    EXPECT_EQ(x[2], 0.0F);
  }
}

void expect_turned(const KernelTable& table, RopeStyle style, std::size_t rotary) {
  constexpr std::size_t kRows = 3;
  constexpr std::size_t kHeads = 2;
  constexpr std::size_t kDim = 128;
  base::ThreadPool pool(2);
  const auto x = random_floats(kRows * kHeads * kDim, 5);
  const auto cosine = random_floats(kRows * rotary / 2, 6);
  const auto sine = random_floats(kRows * rotary / 2, 7);
  std::vector<float> y = x;
  table.rope(
      pool,
      {y.data(), kHeads * kDim, kRows, kHeads, kDim, rotary, cosine.data(), sine.data(), style});
  for (std::size_t vector = 0; vector < kRows * kHeads; ++vector) {
    const std::size_t at = vector * kDim;
    const std::size_t angles = vector / kHeads * rotary / 2;
    for (std::size_t i = 0; i < rotary / 2; ++i) {
      const std::size_t first = at + (style == RopeStyle::kHalves ? i : 2 * i);
      const std::size_t second = style == RopeStyle::kHalves ? first + rotary / 2 : first + 1;
      const double c = cosine[angles + i];
      const double s = sine[angles + i];
      ASSERT_NEAR(y[first], x[first] * c - x[second] * s, 1e-6) << "rotary " << rotary;
      ASSERT_NEAR(y[second], x[second] * c + x[first] * s, 1e-6) << "rotary " << rotary;
    }
    for (std::size_t i = rotary; i < kDim; ++i) ASSERT_EQ(y[at + i], x[at + i]);
  }
}

TEST(Rope, TurnsPairsAndLeavesTheRest) {
  for (const KernelTable* table : runnable_tables()) {
    SCOPED_TRACE(table->id);
    for (const RopeStyle style : {RopeStyle::kHalves, RopeStyle::kInterleaved}) {
      for (const std::size_t rotary : {2U, 6U, 34U, 64U, 128U}) {
        expect_turned(*table, style, rotary);
      }
    }
  }
}

double activation_value(Activation kind, double x) {
  switch (kind) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kReluSquared:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kGeluQuick:
      return x / (1.0 + std::exp(-1.702 * x));
  }
  return 0.0;
}

constexpr Activation kActivations[] = {Activation::kSilu,
                                       Activation::kGeluErf,
                                       Activation::kGeluTanh,
                                       Activation::kRelu,
                                       Activation::kReluSquared,
                                       Activation::kGeluQuick};

void expect_activated(const KernelTable& table, Activation kind, bool gated) {
  base::ThreadPool pool(2);
  const std::size_t n = 4003;
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = (static_cast<float>(i) - 2001.0F) / 100.0F;
  const auto up = random_floats(n, 1);
  std::vector<float> y = x;  // in place
  table.activation(pool, {y.data(), n, gated ? up.data() : nullptr, n, y.data(), n, 1, n, kind});
  for (std::size_t i = 0; i < n; ++i) {
    const double factor = gated ? static_cast<double>(up[i]) : 1.0;
    const double want = activation_value(kind, x[i]) * factor;
    ASSERT_NEAR(y[i], want, 1e-6 * (std::fabs(x[i]) + std::fabs(want)) + 1e-12)
        << "kind " << static_cast<int>(kind) << " x " << x[i];
  }
}

TEST(Activation, AgreesWithTheDefinition) {
  for (const KernelTable* table : runnable_tables()) {
    SCOPED_TRACE(table->id);
    for (const Activation kind : kActivations) {
      expect_activated(*table, kind, false);
      expect_activated(*table, kind, true);
    }
  }
}

TEST(Activation, ExtremesStayFiniteAndNanStaysNan) {
  base::ThreadPool pool(1);
  for (const KernelTable* table : runnable_tables()) {
    for (const Activation kind : kActivations) {
      const std::vector<float> x = {-1e4F, 1e4F, 0.0F, NAN, -88.0F, 89.0F};
      std::vector<float> y(x.size());
      table->activation(pool,
                        {x.data(), x.size(), nullptr, 0, y.data(), y.size(), 1, x.size(), kind});
      EXPECT_NEAR(y[0], 0.0F, 1e-20F) << table->id << " " << static_cast<int>(kind);
      EXPECT_EQ(y[1], kind == Activation::kReluSquared ? 1e8F : 1e4F);
      EXPECT_EQ(y[2], 0.0F);
      EXPECT_TRUE(std::isnan(y[3])) << table->id << " " << static_cast<int>(kind);
      EXPECT_NEAR(y[4], 0.0F, 1e-30F);
    }
  }
}

// The result for a value does not depend on where in a row it stands.
TEST(Activation, TailGivesTheBitsOfTheBody) {
  base::ThreadPool pool(1);
  for (const KernelTable* table : runnable_tables()) {
    for (const Activation kind : kActivations) {
      const auto x = random_floats(67, 3, 8.0F);
      std::vector<float> whole(x.size());
      table->activation(
          pool, {x.data(), x.size(), nullptr, 0, whole.data(), whole.size(), 1, x.size(), kind});
      for (std::size_t i = 0; i < x.size(); ++i) {
        float one = 0.0F;
        table->activation(pool, {&x[i], 1, nullptr, 0, &one, 1, 1, 1, kind});
        ASSERT_EQ(one, whole[i]) << table->id;
      }
    }
  }
}

TEST(Add, WeighsBothSides) {
  for (const std::size_t n_threads : {1U, 2U}) {
    base::ThreadPool pool(n_threads);
    for (const KernelTable* table : runnable_tables()) {
      const std::size_t m = 70;
      const std::size_t n = 1001;
      const auto a = random_floats(m * n, 1);
      const auto before = random_floats(m * (n + 3), 2);
      std::vector<float> y = before;
      table->add(pool, {a.data(), n, y.data(), n + 3, m, n, 0.5F, 2.0F});
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t row = i / (n + 3);
        const std::size_t column = i % (n + 3);
        const float want = column < n ? a[row * n + column] * 0.5F + before[i] * 2.0F : before[i];
        ASSERT_EQ(y[i], want) << table->id;
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::kernels
