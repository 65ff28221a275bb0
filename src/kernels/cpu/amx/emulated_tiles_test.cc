// The AMX kernels on emulated tiles: packing, tile shapes, blocks of k and the driver, on any CPU.

#include <algorithm>
#include <assert.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu_features.h"
#include "kernels/kernel_table.h"
#include "kernels/linear.h"
#include "kernels/pack.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

// clang-format off
#include "kernels/cpu/amx/linear.h"
#include "kernels/cpu/amx/emulated_tiles.h"
// clang-format on

using testing::random_floats;

void to_bf16(void* dst, const float* x, size_t k, size_t k_padded, float*) {
  auto* out = static_cast<std::uint16_t*>(dst);
  for (size_t i = 0; i < k_padded; ++i)
    out[i] = i < k ? tensor::float_to_bf16(x[i]) : std::uint16_t{0};
}

void to_u8(void* dst, const float* x, size_t k, size_t k_padded, float* scale) {
  float absmax = 0.0F;
  for (size_t i = 0; i < k; ++i) absmax = std::max(absmax, std::fabs(x[i]));
  *scale = absmax / 127.0F;
  for (size_t i = 0; i < k_padded; ++i) {
    const auto value = i < k ? std::lrintf(x[i] * (127.0F / absmax)) : 0L;
    static_cast<std::uint8_t*>(dst)[i] = static_cast<std::uint8_t>(value + 128);
  }
}

LinearKernel emulated(WeightType type) {
  SetOps ops{};
  fill_scalar_linear(&ops);
  LinearKernel kernel = ops.linear[static_cast<std::size_t>(type)];
  if (type == WeightType::kInt8) {
    use_tiles<EmulatedTiles, Int8>(&kernel);
    kernel.form = kActivationU8;
    kernel.convert_row = to_u8;
  } else {
    use_tiles<EmulatedTiles, Bf16>(&kernel);
    kernel.form = kActivationBf16;
    kernel.convert_row = to_bf16;
  }
  return kernel;
}

struct Problem {
  std::size_t m, n, k;
  std::vector<float> x, w;

  Problem(std::size_t rows, std::size_t outputs, std::size_t inputs)
      : m(rows), n(outputs), k(inputs), x(random_floats(m * k, 1)), w(random_floats(n * k, 2)) {}

  PackedMatrix pack(WeightType type, const LinearKernel& kernel) const {
    PackedMatrix matrix;
    matrix.type = type;
    matrix.layout_id = kernel.layout_id;
    matrix.n = n;
    matrix.k = k;
    matrix.data = testing::scratch_of(packed_size_bytes(kernel, n, k));
    if (type == WeightType::kInt8) {
      matrix.scales.resize(n);
      matrix.column_sums.resize(n);
    }
    pack_rows(matrix, 0, {reinterpret_cast<const std::byte*>(w.data()), DType::kF32, n}, kernel);
    return matrix;
  }
};

std::vector<float> run_rows(const Problem& p,
                            const PackedMatrix& w,
                            const LinearKernel& kernel,
                            std::size_t row,
                            std::size_t m) {
  base::ThreadPool pool(2);
  std::vector<float> y(m * p.n);
  auto scratch = testing::scratch_of(linear_scratch_bytes(m, p.k));
  LinearArgs args;
  args.w = &w;
  args.x = p.x.data() + row * p.k;
  args.x_stride = p.k;
  args.y = y.data();
  args.y_stride = p.n;
  args.m = m;
  args.scratch = scratch.bytes();
  run_linear(pool, args, kernel);
  return y;
}

struct Shape {
  std::size_t m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1},
                             {16, 64, 64},
                             {17, 65, 65},
                             {33, 70, 130},
                             {40, 20, 1000},
                             {100, 64, 31},
                             {230, 33, 70},
                             {3, 10, 9000},
                             {50, 10, 4300}};

std::vector<float> scalar_int8(const Problem& p) {
  SetOps ops{};
  fill_scalar_linear(&ops);
  const LinearKernel& kernel = ops.linear[static_cast<std::size_t>(WeightType::kInt8)];
  return run_rows(p, p.pack(WeightType::kInt8, kernel), kernel, 0, p.m);
}

TEST(AmxLinear, Int8GivesTheBitsOfTheScalarSet) {
  const LinearKernel kernel = emulated(WeightType::kInt8);
  for (const Shape& shape : kShapes) {
    const Problem p(shape.m, shape.n, shape.k);
    EXPECT_EQ(run_rows(p, p.pack(WeightType::kInt8, kernel), kernel, 0, p.m), scalar_int8(p))
        << "m " << p.m << " n " << p.n << " k " << p.k;
  }
}

// The set as it is put together on a CPU with tiles: conversion and few rows from AVX-512.
TEST(AmxLinear, Int8LeavesFewRowsToVnniWithTheSameBits) {
  if (!cpu_features().avx512) GTEST_SKIP() << "this CPU cannot run AVX-512";
  SetOps ops{};
  fill_avx512_linear_int8(&ops);
  LinearKernel kernel = ops.linear[static_cast<std::size_t>(WeightType::kInt8)];
  kernel.few_rows = kernel.row_tile;
  kernel.tile_few = kernel.tile;
  use_tiles<EmulatedTiles, Int8>(&kernel);
  const Problem p(20, 70, 4500);
  const PackedMatrix w = p.pack(WeightType::kInt8, kernel);
  const std::vector<float> want = scalar_int8(p);
  for (std::size_t m = 1; m <= p.m; ++m) {
    const std::vector<float> got = run_rows(p, w, kernel, 0, m);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << "m " << m;
  }
}

TEST(AmxLinear, Bf16IsOneChainOfTileProducts) {
  const LinearKernel kernel = emulated(WeightType::kBf16);
  const auto rounded = [](float value) {
    return tensor::bf16_to_float(tensor::float_to_bf16(value));
  };
  for (const Shape& shape : kShapes) {
    const Problem p(shape.m, shape.n, shape.k);
    const std::vector<float> got = run_rows(p, p.pack(WeightType::kBf16, kernel), kernel, 0, p.m);
    for (std::size_t i = 0; i < got.size(); i += 7) {
      const float* x = p.x.data() + i / p.n * p.k;
      const float* w = p.w.data() + i % p.n * p.k;
      float want = 0.0F;
      for (std::size_t k = 0; k < p.k; k += 32) {
        float part[2] = {0.0F, 0.0F};
        for (std::size_t j = k; j < std::min(p.k, k + 32); ++j)
          part[j % 2] = std::fma(rounded(x[j]), rounded(w[j]), part[j % 2]);
        want += part[0] + part[1];
      }
      ASSERT_EQ(got[i], want) << "m " << p.m << " n " << p.n << " k " << p.k << " at " << i;
    }
  }
}

TEST(AmxLinear, ARowDoesNotDependOnTheRowsBesideIt) {
  const Problem p(70, 66, 4200);
  for (const WeightType type : {WeightType::kBf16, WeightType::kInt8}) {
    const LinearKernel kernel = emulated(type);
    const PackedMatrix w = p.pack(type, kernel);
    const std::vector<float> all = run_rows(p, w, kernel, 0, p.m);
    for (const std::size_t m : {1U, 15U, 16U, 17U, 31U, 32U, 33U, 69U}) {
      const std::size_t row = p.m - m;
      const std::vector<float> some = run_rows(p, w, kernel, row, m);
      EXPECT_TRUE(std::equal(
          some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(row * p.n)))
          << name_of(type) << " m " << m;
    }
  }
}

}  // namespace
}  // namespace coxswain::kernels
