#include <algorithm>
#include <cmath>
#include <numeric>
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
  ExecContext exec(2);
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
  (kind == NormKind::kLayer ? table.layer_norm : table.rms_norm)(exec, args);
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
  ExecContext exec(1);
  for (const KernelTable* table : runnable_tables()) {
    std::vector<float> x = {3.0F, 4.0F, 0.0F};
    NormArgs args;
    args.x = x.data();
    args.y = x.data();
    args.x_stride = args.y_stride = args.n = 3;
    args.m = 1;
    args.epsilon = 0.0F;
    table->rms_norm(exec, args);
    EXPECT_NEAR(x[0], 3.0 / std::sqrt(25.0 / 3.0), 1e-6);
    EXPECT_NEAR(x[1], 4.0 / std::sqrt(25.0 / 3.0), 1e-6);
    EXPECT_EQ(x[2], 0.0F);
  }
}

void expect_turned(const KernelTable& table, RopeStyle style, std::size_t rotary) {
  constexpr std::size_t kRows = 3;
  constexpr std::size_t kHeads = 2;
  constexpr std::size_t kDim = 128;
  ExecContext exec(2);
  const auto x = random_floats(kRows * kHeads * kDim, 5);
  const auto cosine = random_floats(kRows * rotary / 2, 6);
  const auto sine = random_floats(kRows * rotary / 2, 7);
  std::vector<float> y = x;
  table.rope(
      exec,
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
  ExecContext exec(2);
  const std::size_t n = 4003;
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = (static_cast<float>(i) - 2001.0F) / 100.0F;
  const auto up = random_floats(n, 1);
  std::vector<float> y = x;  // in place
  table.activation(exec, {y.data(), n, gated ? up.data() : nullptr, n, y.data(), n, 1, n, kind});
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
  ExecContext exec(1);
  for (const KernelTable* table : runnable_tables()) {
    for (const Activation kind : kActivations) {
      const std::vector<float> x = {-1e4F, 1e4F, 0.0F, NAN, -88.0F, 89.0F};
      std::vector<float> y(x.size());
      table->activation(exec,
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
  ExecContext exec(1);
  for (const KernelTable* table : runnable_tables()) {
    for (const Activation kind : kActivations) {
      const auto x = random_floats(67, 3, 8.0F);
      std::vector<float> whole(x.size());
      table->activation(
          exec, {x.data(), x.size(), nullptr, 0, whole.data(), whole.size(), 1, x.size(), kind});
      for (std::size_t i = 0; i < x.size(); ++i) {
        float one = 0.0F;
        table->activation(exec, {&x[i], 1, nullptr, 0, &one, 1, 1, 1, kind});
        ASSERT_EQ(one, whole[i]) << table->id;
      }
    }
  }
}

TEST(Add, WeighsBothSides) {
  for (const std::size_t n_threads : {1U, 2U}) {
    ExecContext exec(n_threads);
    for (const KernelTable* table : runnable_tables()) {
      const std::size_t m = 70;
      const std::size_t n = 1001;
      const auto a = random_floats(m * n, 1);
      const auto before = random_floats(m * (n + 3), 2);
      std::vector<float> y = before;
      table->add(exec, {a.data(), n, y.data(), n + 3, m, n, 0.5F, 2.0F});
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t row = i / (n + 3);
        const std::size_t column = i % (n + 3);
        const float want = column < n ? a[row * n + column] * 0.5F + before[i] * 2.0F : before[i];
        ASSERT_EQ(y[i], want) << table->id;
      }
    }
  }
}

// Angles of long contexts: the C library's cosf and sinf would be allowed to differ from machine to machine.
TEST(RopeAngles, AreNearlyExactAndTheSameOnEverySet) {
  ExecContext exec(2);
  for (const std::size_t n : {1U, 4U, 7U, 32U, 65U}) {
    std::vector<std::int32_t> positions(300);
    std::iota(positions.begin(), positions.end(), 0);
    positions.insert(positions.end(), {4095, 32768, 131071, 1 << 20, (1 << 24) - 1});
    std::vector<float> frequencies(2 * n);
    for (std::size_t i = 0; i < frequencies.size(); ++i)
      frequencies[i] =
          static_cast<float>(std::pow(1e4, -static_cast<double>(i % n) / static_cast<double>(n)));
    frequencies.back() = 1000.0F;
    std::vector<std::uint32_t> sets(positions.size());
    for (std::size_t i = 0; i < sets.size(); ++i) sets[i] = i % 2;
    std::vector<float> first;
    for (const KernelTable* table : runnable_tables()) {
      std::vector<float> both(2 * positions.size() * n);
      float* const sine = both.data() + positions.size() * n;
      table->rope_angles(exec,
                         {positions, frequencies.data(), sets.data(), 1.25F, both.data(), sine, n});
      for (std::size_t i = 0; i < positions.size() * n; ++i) {
        const float f = frequencies[sets[i / n] * n + i % n];
        const double angle = static_cast<float>(positions[i / n]) * f;
        ASSERT_NEAR(both[i], 1.25 * std::cos(angle), 1.5e-7) << table->id << " angle " << angle;
        ASSERT_NEAR(sine[i], 1.25 * std::sin(angle), 1.5e-7) << table->id << " angle " << angle;
      }
      if (first.empty()) first = both;
      ASSERT_EQ(both, first) << table->id;
    }
  }
}

TEST(RopeAngles, ARowAloneHasTheBitsOfARowInABatch) {
  ExecContext exec(2);
  constexpr std::size_t kHalf = 37;
  const auto frequencies = random_floats(kHalf, 3);
  std::vector<std::int32_t> positions(257);
  for (std::size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<std::int32_t>(i * 97);
  for (const KernelTable* table : runnable_tables()) {
    std::vector<float> c(positions.size() * kHalf);
    std::vector<float> s(c.size());
    table->rope_angles(exec,
                       {positions, frequencies.data(), nullptr, 1.0F, c.data(), s.data(), kHalf});
    for (std::size_t row = 0; row < positions.size(); ++row) {
      std::vector<float> c1(kHalf);
      std::vector<float> s1(kHalf);
      table->rope_angles(exec,
                         {std::span(positions).subspan(row, 1),
                          frequencies.data(),
                          nullptr,
                          1.0F,
                          c1.data(),
                          s1.data(),
                          kHalf});
      for (std::size_t i = 0; i < kHalf; ++i) {
        ASSERT_EQ(c1[i], c[row * kHalf + i]);
        ASSERT_EQ(s1[i], s[row * kHalf + i]);
      }
    }
  }
}

TEST(Clip, LimitsBothSidesAndKeepsNan) {
  ExecContext exec(2);
  for (const KernelTable* table : runnable_tables()) {
    for (const std::size_t n : kSizes) {
      auto x = random_floats(3 * (n + 1), 1, 2.0F);
      x[0] = NAN;
      const auto before = x;
      table->clip(exec, {x.data(), n + 1, 3, n, 0.75F});
      EXPECT_TRUE(std::isnan(x[0]));
      for (std::size_t i = 1; i < x.size(); ++i) {
        const bool inside = i % (n + 1) < n;
        ASSERT_EQ(x[i], inside ? std::clamp(before[i], -0.75F, 0.75F) : before[i]) << table->id;
      }
    }
  }
}

TEST(SoftCap, AgreesWithTheDefinitionAlsoNearZero) {
  ExecContext exec(2);
  for (const KernelTable* table : runnable_tables()) {
    for (const std::size_t n : {1U, 17U, 4096U, 9001U}) {
      auto x = random_floats(2 * n, 1, 90.0F);
      x[0] = 1e-6F;
      x[n] = 1e30F;
      const auto before = x;
      table->soft_cap(exec, {x.data(), n, 2, n, 0.5F, 30.0F});
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double want = 30.0 * std::tanh(before[i] * 0.5 / 30.0);
        ASSERT_NEAR(x[i], want, 5e-7 * std::fabs(want) + 1e-12) << table->id << " of " << before[i];
      }
    }
  }
}

// How a call is cut into pieces for threads depends on its rows; what a value becomes does not.
TEST(SoftCap, CompanyAndThreadsDoNotChangeAValue) {
  constexpr std::size_t kWidth = 9001;
  const auto before = random_floats(5 * kWidth, 7, 60.0F);
  for (const KernelTable* table : runnable_tables()) {
    ExecContext one(1);
    ExecContext three(3);
    std::vector<float> together = before;
    table->soft_cap(three, {together.data(), kWidth, 5, kWidth, 1.0F, 30.0F});
    for (std::size_t row = 0; row < 5; ++row) {
      for (ExecContext* exec : {&one, &three}) {
        std::vector<float> alone(before.begin() + static_cast<std::ptrdiff_t>(row * kWidth),
                                 before.begin() + static_cast<std::ptrdiff_t>((row + 1) * kWidth));
        table->soft_cap(*exec, {alone.data(), kWidth, 1, kWidth, 1.0F, 30.0F});
        ASSERT_TRUE(std::equal(alone.begin(),
                               alone.end(),
                               together.begin() + static_cast<std::ptrdiff_t>(row * kWidth)));
      }
    }
  }
}

TEST(ClampedSwiglu, AgreesWithTheDefinitionAndTailsWithBodies) {
  ExecContext exec(2);
  for (const KernelTable* table : runnable_tables()) {
    for (const std::size_t n : kSizes) {
      constexpr std::size_t kRows = 3;
      auto inner = random_floats(kRows * 2 * n, 1, 12.0F);
      const auto before = inner;
      table->clamped_swiglu(exec,
                            {inner.data(),
                             2 * n,
                             inner.data() + n,
                             2 * n,
                             inner.data(),
                             2 * n,
                             kRows,
                             n,
                             7.0F,
                             1.702F});
      for (std::size_t at = 0; at < kRows * n; ++at) {
        const std::size_t i = at / n * 2 * n + at % n;
        const float gate = before[i];
        const float up = before[i + n];
        const double g = std::min(static_cast<double>(gate), 7.0);
        const double u = std::clamp(static_cast<double>(up), -7.0, 7.0);
        const double want = (u + 1.0) * g / (1.0 + std::exp(-static_cast<double>(1.702F) * g));
        ASSERT_NEAR(inner[i], want, 3e-6 * (1.0 + std::fabs(want))) << table->id;
        float one = 0.0F;
        table->clamped_swiglu(exec, {&gate, 1, &up, 1, &one, 1, 1, 1, 7.0F, 1.702F});
        ASSERT_EQ(one, inner[i]) << table->id;
        ASSERT_EQ(inner[i + n], up);
      }
    }
  }
}

TEST(GatedAdd, WeighsEachRowByItsGate) {
  ExecContext exec(2);
  constexpr std::size_t kRows = 5;
  for (const KernelTable* table : runnable_tables()) {
    for (const std::size_t n : kSizes) {
      const auto a = random_floats(kRows * n, 1);
      const std::vector<float> gate = {-100.0F, -1.0F, 0.0F, 2.5F, 100.0F};
      const auto before = random_floats(kRows * (n + 1), 2);
      std::vector<float> y = before;
      table->gated_add(exec, {a.data(), n, gate.data(), y.data(), n + 1, kRows, n});
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t row = i / (n + 1);
        const std::size_t column = i % (n + 1);
        const double open = 1.0 / (1.0 + std::exp(-static_cast<double>(gate[row])));
        const double want = column < n ? before[i] + open * a[row * n + column] : before[i];
        ASSERT_NEAR(y[i], want, 5e-7) << table->id;
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::kernels
