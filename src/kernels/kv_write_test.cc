// What caches of 8 bits hold, on every set: numbers of fp8 and what is between two; codes with their scale and zero.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using testing::runnable_tables;

// One vector as `table` writes it.
std::vector<std::byte> written(const KernelTable& table, DType type, const std::vector<float>& x) {
  const BlockId block = 0;
  const AttentionSequence row{.n_rows = 1, .blocks = {&block, 1}};
  const std::size_t bytes = kv_head_bytes(type, 1, x.size());
  std::vector<std::byte> k(bytes), v(bytes);
  ExecContext exec(1);
  table.kv_write(exec,
                 {{.k = k.data(),
                   .v = v.data(),
                   .k_block_stride_bytes = bytes,
                   .v_block_stride_bytes = bytes,
                   .type = type,
                   .n_kv_heads = 1,
                   .block_tokens = 1,
                   .k_head_dim = x.size(),
                   .v_head_dim = x.size()},
                  x.data(),
                  x.size(),
                  x.data(),
                  x.size(),
                  {&row, 1}});
  EXPECT_EQ(k, v);
  return k;
}

struct Float8 {
  DType type;
  int mantissa_bits;
  int bias;
  int greatest;  // as bits
};

// The number that bits without sign stand for.
double number_of(const Float8& type, int bits) {
  const int exponent = bits >> type.mantissa_bits;
  const int mantissa = bits & ((1 << type.mantissa_bits) - 1);
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << type.mantissa_bits);
  return std::ldexp(whole, std::max(exponent, 1) - type.bias - type.mantissa_bits);
}

// Every number of a type, the middles between neighbours and what is on both sides of them.
TEST(KvWrite, FloatsOfEightBitsAreRoundedToNearestEvenAndSaturate) {
  for (const Float8& type :
       {Float8{DType::kF8E4M3, 3, 7, 0x7E}, Float8{DType::kF8E5M2, 2, 15, 0x7B}}) {
    std::vector<float> x;
    std::vector<int> want;
    const auto add = [&](double value, int bits) {
      x.push_back(static_cast<float>(value));
      want.push_back(bits);
      x.push_back(static_cast<float>(-value));
      want.push_back(bits | 0x80);
    };
    for (int bits = 0; bits <= type.greatest; ++bits) {
      const double number = number_of(type, bits);
      add(number, bits);
      if (bits == type.greatest) break;
      const double middle = (number + number_of(type, bits + 1)) / 2;
      add(middle, bits + bits % 2);
      add(middle * (1 - 0x1p-20), bits);
      add(middle * (1 + 0x1p-20), bits + 1);
    }
    for (const double value : {number_of(type, type.greatest) * 1.01, 3e38, HUGE_VAL})
      add(value, type.greatest);
    x.push_back(NAN);
    want.push_back(0x7F);
    for (const KernelTable* table : runnable_tables()) {
      const std::vector<std::byte> got = written(*table, type.type, x);
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(std::to_integer<int>(got[i]), want[i]) << table->id << " " << x[i];
    }
  }
}

TEST(KvWrite, CodesSpanTheVectorFromItsLeastToItsGreatest) {
  const std::vector<float> x{-1.0F, 0.02F, 4.1F, 1.5F, -0.98F};  // 0.02 a step
  for (const KernelTable* table : runnable_tables()) {
    const std::vector<std::byte> got = written(*table, DType::kI8, x);
    ASSERT_EQ(got.size(), 5 + 2 * sizeof(float));
    const int want[] = {0, 51, 255, 125, 1};
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_EQ(std::to_integer<int>(got[i]), want[i]) << table->id << " " << i;
    float scale = 0.0F;
    float zero = 0.0F;
    std::memcpy(&scale, got.data() + 5, sizeof scale);
    std::memcpy(&zero, got.data() + 9, sizeof zero);
    EXPECT_FLOAT_EQ(scale, 0.02F) << table->id;
    EXPECT_EQ(zero, -1.0F) << table->id;
  }
}

// 70 values: 64 in 32 bytes, six in three.
TEST(KvWrite, CodesOfFourBitsLieInHalves) {
  std::vector<float> x(70);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 16) * 0.5F - 2.0F;
  for (const KernelTable* table : runnable_tables()) {
    const std::vector<std::byte> got = written(*table, DType::kI4, x);
    ASSERT_EQ(got.size(), 35 + 2 * sizeof(float));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t begin = i < 64 ? 0 : 64;
      const std::size_t half = i < 64 ? 32 : 3;
      const std::size_t in_half = (i - begin) % half;
      const int pair = std::to_integer<int>(got[begin / 2 + in_half]);
      EXPECT_EQ(i - begin < half ? pair & 15 : pair >> 4, static_cast<int>(i * 7 % 16))
          << table->id << " " << i;
    }
    float parameters[2] = {};  // scale and zero
    std::memcpy(parameters, got.data() + 35, sizeof parameters);
    EXPECT_FLOAT_EQ(parameters[0], 0.5F) << table->id;
    EXPECT_EQ(parameters[1], -2.0F) << table->id;
  }
}

}  // namespace
}  // namespace coxswain::kernels
