// Tile instructions as such: on tiles where the CPU has them, through the trap elsewhere. The two
// must agree, so everything here is checked against the definition in plain C++.

#include "kernels/testing/tile_trap.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu_features.h"
#include "kernels/test_util.h"
#include "tensor/dtype.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/amx/tile_config.h"

struct Shape {
  std::uint8_t rows, groups, outputs;  // C [rows, outputs], A [rows, groups], B [groups, outputs]
};

// Tile 0 is C, 1 is A, 2 is B.
TileConfig config_of(const Shape& shape) {
  TileConfig config;
  config.rows[0] = config.rows[1] = shape.rows;
  config.rows[2] = shape.groups;
  config.row_bytes[0] = config.row_bytes[2] = static_cast<std::uint16_t>(4 * shape.outputs);
  config.row_bytes[1] = static_cast<std::uint16_t>(4 * shape.groups);
  return config;
}

void release() {
  asm volatile("tilerelease" : : : "memory");
}

struct Tile {
  alignas(64) std::uint8_t bytes[16][64] = {};
};

Tile random_tile(std::uint32_t seed) {
  Tile tile;
  std::mt19937 generator(seed);
  for (auto& row : tile.bytes) {
    for (std::uint8_t& byte : row) byte = static_cast<std::uint8_t>(generator());
  }
  return tile;
}

// C after one product; bytes beyond the shape stay as they were in c.
enum class Product { kBf16, kS8S8, kS8U8, kU8S8, kU8U8 };

Tile multiply(Product product, const Shape& shape, const Tile& c, const Tile& a, const Tile& b) {
  Tile out = c;
  const std::size_t stride = 64;
  load_tile_config(config_of(shape));
  asm volatile(
      "tileloadd (%0,%3,1), %%tmm0\n tileloadd (%1,%3,1), %%tmm1\n tileloaddt1 (%2,%3,1), %%tmm2"
      :
      : "r"(&c), "r"(&a), "r"(&b), "r"(stride)
      : "memory");
  switch (product) {
    case Product::kBf16:
      asm volatile("tdpbf16ps %tmm2, %tmm1, %tmm0");
      break;
    case Product::kS8S8:
      asm volatile("tdpbssd %tmm2, %tmm1, %tmm0");
      break;
    case Product::kS8U8:
      asm volatile("tdpbsud %tmm2, %tmm1, %tmm0");
      break;
    case Product::kU8S8:
      asm volatile("tdpbusd %tmm2, %tmm1, %tmm0");
      break;
    case Product::kU8U8:
      asm volatile("tdpbuud %tmm2, %tmm1, %tmm0");
      break;
  }
  asm volatile("tilestored %%tmm0, (%0,%1,1)" : : "r"(&out), "r"(stride) : "memory");
  release();
  return out;
}

int as_int(std::uint8_t byte, bool is_signed) {
  return is_signed ? int{static_cast<std::int8_t>(byte)} : int{byte};
}

Tile expected_integers(
    Product product, const Shape& s, const Tile& c, const Tile& a, const Tile& b) {
  const bool signed_a = product == Product::kS8S8 || product == Product::kS8U8;
  const bool signed_b = product == Product::kS8S8 || product == Product::kU8S8;
  Tile out = c;
  for (std::size_t m = 0; m < s.rows; ++m) {
    for (std::size_t n = 0; n < s.outputs; ++n) {
      std::int32_t before = 0;
      std::memcpy(&before, &c.bytes[m][4 * n], 4);
      std::int64_t sum = before;
      for (std::size_t k = 0; k < s.groups; ++k) {
        for (std::size_t i = 0; i < 4; ++i)
          sum += as_int(a.bytes[m][4 * k + i], signed_a) * as_int(b.bytes[k][4 * n + i], signed_b);
      }
      const auto wrapped = static_cast<std::uint32_t>(static_cast<std::uint64_t>(sum));
      std::memcpy(&out.bytes[m][4 * n], &wrapped, 4);
    }
  }
  return out;
}

// Subnormal values count as zero.
float flushed(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0F, value) : value;
}
float bf16_at(const std::uint8_t* bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, 2);
  return flushed(tensor::bf16_to_float(bits));
}
float float_at(const std::uint8_t* bytes) {
  float value = 0.0F;
  std::memcpy(&value, bytes, 4);
  return value;
}

// The chain of the lower (which = 0) or upper values of all pairs of a row of A and a column of B.
float bf16_chain(const Shape& s, const std::uint8_t* a, const std::uint8_t* b, std::size_t which) {
  float sum = 0.0F;
  for (std::size_t k = 0; k < s.groups; ++k) {
    sum = flushed(std::fma(bf16_at(a + 4 * k + 2 * which), bf16_at(b + 64 * k + 2 * which), sum));
  }
  return sum;
}

Tile expected_bf16(const Shape& s, const Tile& c, const Tile& a, const Tile& b) {
  Tile out = c;
  for (std::size_t m = 0; m < s.rows; ++m) {
    for (std::size_t n = 0; n < s.outputs; ++n) {
      const std::uint8_t* column = &b.bytes[0][4 * n];
      const float product =
          flushed(bf16_chain(s, a.bytes[m], column, 0) + bf16_chain(s, a.bytes[m], column, 1));
      const float sum = flushed(flushed(float_at(&c.bytes[m][4 * n])) + product);
      std::memcpy(&out.bytes[m][4 * n], &sum, 4);
    }
  }
  return out;
}

constexpr Shape kShapes[] = {{16, 16, 16}, {1, 1, 1}, {16, 3, 5}, {7, 16, 2}, {2, 5, 16}};

bool same(const Tile& a, const Tile& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

class Tiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().amx)
      GTEST_SKIP() << "neither tiles nor AVX-512 with BF16, which the trap needs";
  }
};

TEST_F(Tiles, IntegerProductsWrap) {
  for (const Shape& shape : kShapes) {
    for (const auto product : {Product::kS8S8, Product::kS8U8, Product::kU8S8, Product::kU8U8}) {
      const Tile c = random_tile(1);
      const Tile a = random_tile(2);
      const Tile b = random_tile(3);
      EXPECT_TRUE(
          same(multiply(product, shape, c, a, b), expected_integers(product, shape, c, a, b)))
          << static_cast<int>(product) << " rows " << int{shape.rows};
    }
  }
}

Tile random_values(std::uint32_t seed, bool pairs, float range) {
  const std::vector<float> values = testing::random_floats(512, seed, range);
  Tile tile;
  for (std::size_t i = 0; i < (pairs ? 512U : 256U); ++i) {
    std::uint8_t* to = pairs ? &tile.bytes[0][0] + 2 * i : &tile.bytes[0][0] + 4 * i;
    const std::uint16_t bits = tensor::float_to_bf16(values[i]);
    pairs ? std::memcpy(to, &bits, 2) : std::memcpy(to, &values[i], 4);
  }
  return tile;
}

TEST_F(Tiles, Bf16ProductsAreTwoChainsAndASum) {
  for (const Shape& shape : kShapes) {
    // The smaller ranges reach subnormal products and sums.
    for (const float range : {1.0F, 1e-18F, 3e-20F, 1e-38F}) {
      const Tile c = random_values(1, false, range * range);
      const Tile a = random_values(2, true, range);
      const Tile b = random_values(3, true, range);
      EXPECT_TRUE(same(multiply(Product::kBf16, shape, c, a, b), expected_bf16(shape, c, a, b)))
          << "range " << range << " rows " << int{shape.rows};
    }
  }
}

TEST_F(Tiles, Bf16ProductsDoNotTouchTheControlWord) {
  unsigned before = 0;
  unsigned after = 0;
  asm volatile("stmxcsr %0" : "=m"(before));
  multiply(Product::kBf16, kShapes[0], random_tile(1), random_tile(2), random_tile(3));
  asm volatile("stmxcsr %0" : "=m"(after));
  EXPECT_EQ(before, after);
}

// Every form of address: base, index and scale, displacements, high registers, no index.
TEST_F(Tiles, LoadsAndStoresTakeEveryFormOfAddress) {
  std::vector<std::uint8_t> from(64 * 40);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7 + i / 64);
  std::vector<std::uint8_t> to(64 * 40);
  load_tile_config(config_of({3, 16, 16}));
  const auto expect_rows = [&](std::size_t from_at, std::size_t to_at, std::size_t stride) {
    for (std::size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(std::memcmp(&to[to_at + row * stride], &from[from_at + row * stride], 64), 0)
          << "row " << row << " stride " << stride;
    }
    std::fill(to.begin(), to.end(), std::uint8_t{0});
  };
  const std::size_t stride = 64;
  asm volatile("tileloadd (%0,%2,2), %%tmm1\n tilestored %%tmm1, (%1,%2,2)"
               :
               : "r"(from.data()), "r"(to.data()), "r"(stride)
               : "memory");
  expect_rows(0, 0, 128);
  asm volatile("tileloaddt1 64(%0,%2,4), %%tmm1\n tilestored %%tmm1, 64(%1,%2,4)"
               :
               : "r"(from.data()), "r"(to.data()), "r"(stride)
               : "memory");
  expect_rows(64, 64, 256);
  asm volatile(
      "mov %0, %%r8\n mov %1, %%r13\n mov %2, %%r12\n"
      "tileloadd 512(%%r8,%%r12,8), %%tmm1\n tilestored %%tmm1, 128(%%r13,%%r12,8)"
      :
      : "r"(from.data()), "r"(to.data()), "r"(stride)
      : "memory", "r8", "r12", "r13");
  expect_rows(512, 128, 512);
  // Without an index all rows are one; with rbp as base; with an address of the index alone.
  asm volatile("tileloadd 64(%0), %%tmm1\n tilestored %%tmm1, (%1,%2,1)"
               :
               : "r"(from.data()), "r"(to.data()), "r"(stride)
               : "memory");
  for (std::size_t row = 0; row < 3; ++row)
    EXPECT_EQ(std::memcmp(&to[row * 64], &from[64], 64), 0) << "row " << row;
  std::ptrdiff_t back = -128;
  asm volatile("tileloadd -64(%0,%2,1), %%tmm1\n tilestored %%tmm1, (%1,%2,1)"
               :
               : "r"(from.data() + 320), "r"(to.data() + 256), "r"(back)
               : "memory");
  for (std::size_t row = 0; row < 3; ++row)
    EXPECT_EQ(std::memcmp(&to[256 - 128 * row], &from[256 - 128 * row], 64), 0) << "row " << row;
  release();
}

TEST_F(Tiles, ConfigurationReadsBackAndIsZeroAfterRelease) {
  TileConfig config = config_of({5, 7, 9});
  config.rows[7] = 16;
  config.row_bytes[7] = 64;
  TileConfig back;
  load_tile_config(config);
  asm volatile("sttilecfg %0" : "=m"(back) : : "memory");
  EXPECT_EQ(std::memcmp(&config, &back, sizeof config), 0);
  release();
  asm volatile("sttilecfg %0" : "=m"(back) : : "memory");
  const std::array<std::uint8_t, sizeof back> zeros{};
  EXPECT_EQ(std::memcmp(&back, zeros.data(), sizeof back), 0);
}

TEST_F(Tiles, ZeroClearsAndConfiguringDoes) {
  Tile out = random_tile(1);
  const Tile ones = random_tile(2);
  const std::size_t stride = 64;
  load_tile_config(config_of({4, 16, 16}));
  asm volatile("tileloadd (%0,%1,1), %%tmm0\n tilezero %%tmm0"
               :
               : "r"(&ones), "r"(stride)
               : "memory");
  asm volatile("tilestored %%tmm0, (%0,%1,1)" : : "r"(&out), "r"(stride) : "memory");
  release();
  Tile expected = random_tile(1);
  std::memset(expected.bytes, 0, 4 * stride);
  EXPECT_TRUE(same(out, expected));
}

// What a CPU refuses with an exception ends the process here, with the reason.
class RefusedTiles : public Tiles {
 protected:
  void SetUp() override {
    Tiles::SetUp();
    if (!IsSkipped() && !testing::tiles_are_emulated())
      GTEST_SKIP() << "this CPU has tiles and refuses by itself";
  }
};

void product_of_one_tile_twice() {
  load_tile_config(config_of({16, 16, 16}));
  // tdpbf16ps of tiles 0, 1 and 1, which the assembler does not write.
  asm volatile("tilezero %tmm0\n tilezero %tmm1\n .byte 0xC4, 0xE2, 0x72, 0x5C, 0xC1");
}
void product_of(const TileConfig& config) {
  load_tile_config(config);
  asm volatile("tilezero %tmm0\n tilezero %tmm1\n tilezero %tmm2\n tdpbusd %tmm2, %tmm1, %tmm0");
}

TEST_F(RefusedTiles, Products) {
  EXPECT_DEATH(product_of_one_tile_twice(), "one tile in two places");
  TileConfig rows = config_of({16, 16, 16});
  rows.rows[0] = 15;
  EXPECT_DEATH(product_of(rows), "differ in rows");
  TileConfig columns = config_of({16, 16, 16});
  columns.row_bytes[0] = 60;
  EXPECT_DEATH(product_of(columns), "differ in columns");
  TileConfig inner = config_of({16, 16, 16});
  inner.rows[2] = 15;
  EXPECT_DEATH(product_of(inner), "differ in k");
  TileConfig bytes = config_of({16, 16, 16});
  bytes.row_bytes[1] = 62;
  EXPECT_DEATH(product_of(bytes), "32-bit groups");
}

TEST_F(RefusedTiles, TilesThatAreNotReady) {
  EXPECT_DEATH(asm volatile("tilezero %tmm0"), "before ldtilecfg");
  EXPECT_DEATH(
      {
        load_tile_config(config_of({16, 16, 16}));
        asm volatile("tilezero %tmm3");
      },
      "leaves out");
  EXPECT_DEATH(
      {
        load_tile_config(config_of({16, 16, 16}));
        asm volatile("tilezero %tmm0\n tilezero %tmm1\n tdpbf16ps %tmm2, %tmm1, %tmm0");
      },
      "nothing was written");
}

TEST_F(RefusedTiles, Configurations) {
  TileConfig config;
  config.palette = 2;
  EXPECT_DEATH(load_tile_config(config), "palette");
  config = {};
  config.reserved[3] = 1;
  EXPECT_DEATH(load_tile_config(config), "reserved");
  config = {};
  config.rows[8] = 1;
  EXPECT_DEATH(load_tile_config(config), "eight tiles");
  config = {};
  config.rows[1] = 17;
  config.row_bytes[1] = 64;
  EXPECT_DEATH(load_tile_config(config), "16 rows");
  config.rows[1] = 16;
  config.row_bytes[1] = 65;
  EXPECT_DEATH(load_tile_config(config), "64 bytes");
  config.row_bytes[1] = 0;
  EXPECT_DEATH(load_tile_config(config), "rows without bytes");
}

TEST_F(RefusedTiles, OtherIllegalInstructions) {
  EXPECT_DEATH(asm volatile("ud2"), "none of tiles");
}

}  // namespace
}  // namespace coxswain::kernels
