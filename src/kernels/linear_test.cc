#include "kernels/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include <gtest/gtest.h>

#include "kernels/cpu/ops.h"
#include "kernels/cpu_features.h"
#include "kernels/kernel_table.h"
#include "kernels/pack.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::runnable_tables;
using testing::scalar_table;

struct Shape {
  std::size_t m, n, k;
};

constexpr Shape kShapes[] = {{1, 1, 1},
                             {2, 3, 5},
                             {1, 64, 64},
                             {7, 65, 33},
                             {6, 128, 96},
                             {13, 130, 257},
                             {33, 31, 1000},
                             {200, 70, 129}};

struct Problem {
  explicit Problem(const Shape& shape)
      : s(shape),
        x(random_floats(s.m * s.k, 1)),
        w(random_floats(s.n * s.k, 2)),
        bias(random_floats(s.n, 3)),
        y0(random_floats(s.m * s.n, 4)) {}
  Shape s;
  std::vector<float> x, w, bias, y0;

  MatrixImage pack(const KernelTable& table, const WeightFormat& format) const {
    const DenseRows piece{reinterpret_cast<const std::byte*>(w.data()), DType::kF32, s.n};
    return pack_matrix(table.ops(format), s.k, {&piece, 1}).value();
  }
};

enum class Epilogue { kPlain, kBias, kAccumulate };

struct Rows {
  std::size_t first;
  std::size_t n;
};

std::vector<float> run_rows(const KernelTable& table,
                            const MatrixImage& w,
                            const Problem& p,
                            Rows rows,
                            std::size_t n_threads,
                            Epilogue epilogue = Epilogue::kPlain) {
  ExecContext exec(n_threads);
  std::vector<float> y(p.y0.begin() + static_cast<std::ptrdiff_t>(rows.first * p.s.n),
                       p.y0.begin() + static_cast<std::ptrdiff_t>((rows.first + rows.n) * p.s.n));
  testing::run_linear(table,
                      exec,
                      {p.x.data() + rows.first * p.s.k, p.s.k, rows.n, p.s.k},
                      {&w, y.data(), p.s.n, epilogue == Epilogue::kPlain ? nullptr : p.bias.data()},
                      epilogue == Epilogue::kAccumulate);
  return y;
}

float rounded(float value, const WeightFormat& format) {
  if (format.plain == DType::kBf16) return tensor::bf16_to_float(tensor::float_to_bf16(value));
  if (format.plain == DType::kF16) return tensor::f16_to_float(tensor::float_to_f16(value));
  return value;
}

// What the sum may differ by: rounding of the weights and activations as the type says, and of
// float sums of K terms.
struct Expected {
  double value = 0.0;
  double tolerance = 0.0;
};

Expected expected_of(const Problem& p,
                     const MatrixImage& image,
                     std::size_t row,
                     std::size_t column) {
  const WeightFormat& format = *image.ops->format;
  const bool groups = format.scheme.group != 0;
  const float* x = p.x.data() + row * p.s.k;
  std::vector<float> w(p.w.begin() + static_cast<std::ptrdiff_t>(column * p.s.k),
                       p.w.begin() + static_cast<std::ptrdiff_t>((column + 1) * p.s.k));
  // How codes in groups come about is linear_groups_test.cc's matter.
  if (groups) image.ops->unpack_row(image, column, w.data());
  double magnitudes = 0.0;
  double x_max = 0.0;
  double w_max = 0.0;
  double x_sum = 0.0;
  double w_sum = 0.0;
  Expected out;
  for (std::size_t i = 0; i < p.s.k; ++i) {
    const double term = static_cast<double>(x[i]) * static_cast<double>(rounded(w[i], format));
    out.value += term;
    magnitudes += std::fabs(term);
    x_sum += std::fabs(x[i]);
    w_sum += std::fabs(w[i]);
    x_max = std::max<double>(x_max, std::fabs(x[i]));
    w_max = std::max<double>(w_max, std::fabs(w[i]));
  }
  out.tolerance = magnitudes * static_cast<double>(p.s.k + 4) * 0x1p-24 + 1e-30;
  if (format.plain == DType::kBf16) out.tolerance += magnitudes * 0x1p-8;
  if (format.is_quantised()) {
    const double step_x = x_max / 254;
    const double step_w = groups ? 0.0 : w_max / 254;
    out.tolerance +=
        x_sum * step_w + w_sum * step_x + static_cast<double>(p.s.k) * step_x * step_w + 1e-6;
  }
  return out;
}

// What runs for every kernel set, shape and type; a failure names them.
template <typename Check>
void for_each_case(std::span<const Shape> shapes, Check check) {
  for (const KernelTable* table : runnable_tables()) {
    for (const Shape& shape : shapes) {
      const Problem p(shape);
      for (const WeightFormat* format : weight_formats()) {
        SCOPED_TRACE(::testing::Message() << table->id << " " << format->name << " m " << shape.m
                                          << " n " << shape.n << " k " << shape.k);
        check(*table, p, p.pack(*table, *format));
      }
    }
  }
}

TEST(Linear, EverySetAgreesWithTheDefinition) {
  for_each_case(kShapes, [](const KernelTable& table, const Problem& p, const MatrixImage& w) {
    const std::vector<float> y = run_rows(table, w, p, {0, p.s.m}, 2);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const Expected want = expected_of(p, w, i / p.s.n, i % p.s.n);
      ASSERT_NEAR(y[i], want.value, want.tolerance) << "at " << i;
    }
  });
}

TEST(Linear, BiasAndAccumulateAddInThatOrder) {
  for_each_case(kShapes, [](const KernelTable& table, const Problem& p, const MatrixImage& w) {
    const std::vector<float> plain = run_rows(table, w, p, {0, p.s.m}, 1);
    const std::vector<float> bias = run_rows(table, w, p, {0, p.s.m}, 1, Epilogue::kBias);
    const std::vector<float> sum = run_rows(table, w, p, {0, p.s.m}, 1, Epilogue::kAccumulate);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      ASSERT_EQ(bias[i], plain[i] + p.bias[i % p.s.n]);
      ASSERT_EQ(sum[i], p.y0[i] + bias[i]);
    }
  });
}

// Law 1: a row alone, in any group of rows, and on any number of threads.
TEST(Linear, ARowDoesNotDependOnTheRowsBesideItOrOnThreads) {
  constexpr Shape kSome[] = {{40, 131, 300}, {5, 64, 9001}, {450, 67, 65}};
  for_each_case(kSome, [](const KernelTable& table, const Problem& p, const MatrixImage& w) {
    const std::vector<float> all = run_rows(table, w, p, {0, p.s.m}, 2);
    const auto are_the_same = [&](const std::vector<float>& some, std::size_t row) {
      return std::equal(
          some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(row * p.s.n));
    };
    for (const std::size_t n_threads : {1U, 3U})
      EXPECT_EQ(run_rows(table, w, p, {0, p.s.m}, n_threads), all);
    for (std::size_t m = 1; m <= p.s.m; m = m < 20 ? m + 1 : m + 37) {
      const std::size_t row = p.s.m - m;
      ASSERT_TRUE(are_the_same(run_rows(table, w, p, {row, m}, 2), row)) << "m " << m;
    }
    for (std::size_t row = 0; row < std::min<std::size_t>(p.s.m, 30); ++row)
      ASSERT_TRUE(are_the_same(run_rows(table, w, p, {row, 1}, 2), row)) << "row " << row;
  });
}

// Integers are exact and every set rounds the same way at both ends.
TEST(Linear, Int8GivesTheSameBitsOnEverySet) {
  for (const Shape& shape : kShapes) {
    const Problem p(shape);
    const std::vector<float> want = run_rows(scalar_table(),
                                             p.pack(scalar_table(), formats::kInt8),
                                             p,
                                             {0, shape.m},
                                             1,
                                             Epilogue::kAccumulate);
    for (const KernelTable* table : runnable_tables()) {
      const MatrixImage w = p.pack(*table, formats::kInt8);
      EXPECT_EQ(run_rows(*table, w, p, {0, shape.m}, 2, Epilogue::kAccumulate), want)
          << table->id << " k " << shape.k;
    }
  }
}

TEST(Linear, Int8TakesExtremeRows) {
  for (const KernelTable* table : runnable_tables()) {
    Problem p({3, 17, 4099});
    std::fill(p.x.begin(), p.x.begin() + 4099, 0.0F);             // a row of zeros
    std::fill(p.x.begin() + 4099, p.x.begin() + 2 * 4099, 3.0F);  // every product at its largest
    std::fill(p.w.begin(), p.w.begin() + 4099, -2.0F);
    std::fill(p.w.begin() + 4099, p.w.begin() + 2 * 4099, 0.0F);
    const MatrixImage w = p.pack(*table, formats::kInt8);
    const std::vector<float> y = run_rows(*table, w, p, {0, 3}, 2);
    for (std::size_t j = 0; j < 17; ++j) EXPECT_EQ(y[j], 0.0F) << table->id;
    EXPECT_NEAR(y[17], -6.0 * 4099, 6.0 * 4099 * 1e-6) << table->id;
    EXPECT_EQ(y[18], 0.0F) << table->id;
  }
}

TEST(Linear, Int8TakesARowOfValuesWithoutAReciprocal) {
  for (const KernelTable* table : runnable_tables()) {
    Problem p({2, 3, 70});
    std::fill(p.w.begin(), p.w.begin() + 70, 0.0F);
    p.w[1] = 1e-44F;
    const MatrixImage w = p.pack(*table, formats::kInt8);
    const std::vector<float> y = run_rows(*table, w, p, {0, 2}, 1);
    EXPECT_EQ(y[0], 0.0F) << table->id;
    EXPECT_EQ(y[3], 0.0F) << table->id;
  }
}

// The same for activations, which every set has to treat alike.
TEST(Linear, Int8CountsActivationsWithoutAReciprocalAsZero) {
  Problem p({3, 17, 1100});
  for (std::size_t i = 0; i < p.s.k; ++i) {
    p.x[i] *= 1e-37F;
    p.x[p.s.k + i] = i % 3 == 0 ? 1e-44F : 0.0F;
  }
  const std::vector<float> want =
      run_rows(scalar_table(), p.pack(scalar_table(), formats::kInt8), p, {0, p.s.m}, 1);
  for (std::size_t i = 0; i < 2 * p.s.n; ++i) EXPECT_EQ(want[i], 0.0F);
  for (const KernelTable* table : runnable_tables()) {
    EXPECT_EQ(run_rows(*table, p.pack(*table, formats::kInt8), p, {0, p.s.m}, 1), want)
        << table->id;
  }
}

TEST(Linear, PiecesOfAnyTypeStackAlongTheOutputs) {
  const std::size_t k = 37;
  const std::vector<float> a = random_floats(5 * k, 1);
  std::vector<std::uint16_t> b(70 * k);
  std::vector<std::uint16_t> c(3 * k);
  const std::vector<float> values = random_floats(b.size() + c.size(), 2);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = tensor::float_to_bf16(values[i]);
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = tensor::float_to_f16(values[b.size() + i]);
  Problem p({4, 78, k});
  std::copy(a.begin(), a.end(), p.w.begin());
  for (std::size_t i = 0; i < b.size(); ++i) p.w[5 * k + i] = tensor::bf16_to_float(b[i]);
  for (std::size_t i = 0; i < c.size(); ++i) p.w[75 * k + i] = tensor::f16_to_float(c[i]);
  const DenseRows pieces[] = {{reinterpret_cast<const std::byte*>(a.data()), DType::kF32, 5},
                              {reinterpret_cast<const std::byte*>(b.data()), DType::kBf16, 70},
                              {reinterpret_cast<const std::byte*>(c.data()), DType::kF16, 3}};
  for (const KernelTable* table : runnable_tables()) {
    for (const WeightFormat* format : weight_formats()) {
      const MatrixImage stacked = pack_matrix(table->ops(*format), k, pieces).value();
      const MatrixImage whole = p.pack(*table, *format);
      EXPECT_EQ(run_rows(*table, stacked, p, {0, 4}, 1), run_rows(*table, whole, p, {0, 4}, 1))
          << table->id << " " << format->name;
    }
  }
}

TEST(Linear, RowsReadBackAsTheyAreMultiplied) {
  constexpr Shape kOne[] = {{1, 71, 45}};
  for_each_case(kOne, [](const KernelTable&, const Problem& p, const MatrixImage& w) {
    for (std::size_t n = 0; n < p.s.n; ++n) {
      std::vector<float> row(p.s.k);
      w.ops->unpack_row(w, n, row.data());
      const WeightFormat& format = *w.ops->format;
      // Values are within [-1, 1]. Those against the sign of a group's largest may be cut off at 7 of 9.2 steps.
      const float allowed = !format.is_quantised() ? 0.0F
                            : format.bits == 8 ? 0.58F / 127  // half a step, and a float16 scale
                                               : 2.2F / 9.2F;
      for (std::size_t k = 0; k < p.s.k; ++k)
        ASSERT_NEAR(row[k], rounded(p.w[n * p.s.k + k], format), allowed) << n << "," << k;
    }
  });
}

// An infinity leaves nothing that could be told from a NaN: the row's outputs are NaN on
// every set, in quantised formats.
TEST(Linear, ARowWithAnInfinityIsTheSameOnEverySet) {
  Problem p({5, 20, 70});
  p.x[70 + 3] = INFINITY;
  p.x[140] = -INFINITY;
  p.x[141] = INFINITY;
  for (const WeightFormat* format : weight_formats()) {
    if (!format->is_quantised()) continue;
    const std::vector<float> want =
        run_rows(scalar_table(), p.pack(scalar_table(), *format), p, {0, 5}, 1);
    for (std::size_t i = 20; i < 60; ++i) EXPECT_TRUE(std::isnan(want[i]));
    for (const KernelTable* table : runnable_tables()) {
      const std::vector<float> y = run_rows(*table, p.pack(*table, *format), p, {0, 5}, 1);
      EXPECT_TRUE(testing::same_numbers(y, want)) << table->id << " " << format->name;
    }
  }
}

TEST(Linear, ABadRowStaysABadRow) {
  for (const KernelTable* table : runnable_tables()) {
    Problem p({3, 20, 70});
    for (const WeightFormat* format : weight_formats()) {
      const MatrixImage w = p.pack(*table, *format);
      const std::vector<float> clean = run_rows(*table, w, p, {0, 3}, 1);
      Problem bad = p;
      bad.x[70 + 3] = NAN;
      const std::vector<float> y = run_rows(*table, w, bad, {0, 3}, 1);
      for (std::size_t j = 0; j < 20; ++j) {
        EXPECT_EQ(y[j], clean[j]);
        EXPECT_TRUE(std::isnan(y[20 + j])) << table->id << " " << format->name;
        EXPECT_EQ(y[40 + j], clean[40 + j]);
      }
    }
  }
}

// Weights that are not finite, scales of their rows included, stay in their output.
TEST(Linear, ABrokenWeightStaysInItsOutput) {
  constexpr Shape kSome[] = {{13, 70, 172}};
  for_each_case(kSome, [](const KernelTable& table, const Problem& p, const MatrixImage& w) {
    const std::vector<float> clean = run_rows(table, w, p, {0, p.s.m}, 2);
    for (const float value : {NAN, INFINITY, -INFINITY}) {
      Problem broken = p;
      broken.w[33 * p.s.k + 171] = value;
      const MatrixImage image = broken.pack(table, *w.ops->format);
      const std::vector<float> y = run_rows(table, image, p, {0, p.s.m}, 2);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(i % p.s.n == 33, !std::isfinite(y[i])) << value << " at " << i;
        ASSERT_TRUE(i % p.s.n == 33 || y[i] == clean[i]) << value << " at " << i;
      }
    }
  });
}

// bf16 weights on a CPU with AVX-512 but without vdpbf16ps: widened, activations stay float32.
TEST(Linear, Bf16IsWidenedWhereTheCpuHasNoDotProduct) {
  if (!cpu_features().avx512) GTEST_SKIP() << "this CPU cannot run AVX-512";
  SetOps ops{};
  fill_avx512_linear_f32(&ops);
  const LinearOps& usual = (*kernel_table(Isa::kAvx512))->ops(formats::kBfloat16);
  LinearOps widened = usual;
  widened.kernel = &ops.linear[kFormBfloat16];
  widened.layout_id = widened.kernel->layout_id;
  const Problem p({13, 130, 257});
  const DenseRows rows{reinterpret_cast<const std::byte*>(p.w.data()), DType::kF32, p.s.n};
  const MatrixImage w = pack_matrix(widened, p.s.k, {&rows, 1}).value();
  ExecContext exec(2);
  std::vector<float> y(p.s.m * p.s.n);
  testing::run_linear(
      **kernel_table(Isa::kAvx512), exec, {p.x.data(), p.s.k, p.s.m, p.s.k}, {&w, y.data(), p.s.n});
  // Activations are not rounded: the tolerance is that of float32 weights that happen to be bf16.
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Expected want = expected_of(p, w, i / p.s.n, i % p.s.n);
    ASSERT_NEAR(y[i], want.value, want.tolerance / 100) << "at " << i;
  }
}

}  // namespace
}  // namespace coxswain::kernels
