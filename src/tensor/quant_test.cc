#include "tensor/quant.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/dtype.h"

namespace coxswain::tensor {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::vector<std::byte> halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> out;
  out.reserve(values.size());
  for (const float value : values) out.push_back(float_to_f16(value));
  return bytes_of(out);
}

std::vector<float> decoded(const QuantRows& rows, std::size_t row) {
  EXPECT_TRUE(check(rows).ok()) << check(rows).message();
  std::vector<float> out(rows.k);
  decode_row(rows, row, out.data());
  return out;
}

using Floats = std::vector<float>;

TEST(Quant, SignedCodesInGroupsWithAShortLastOne) {
  const std::vector<std::uint8_t> codes{0,
                                        8,
                                        15,
                                        9,
                                        7,  //
                                        8,
                                        8,
                                        8,
                                        8,
                                        0};
  const auto scales = halves({0.5F,
                              2.0F,
                              0.25F,  //
                              1.0F,
                              1.0F,
                              4.0F});
  const QuantRows rows{{.bits = 4, .codes = Codes::kSigned, .scale = ScaleType::kF16, .group = 2},
                       2,
                       5,
                       codes,
                       scales,
                       {},
                       {},
                       {}};
  EXPECT_EQ(decoded(rows, 0), (Floats{-4.0F, 0.0F, 14.0F, 2.0F, -0.25F}));
  EXPECT_EQ(decoded(rows, 1), (Floats{0.0F, 0.0F, 0.0F, 0.0F, -32.0F}));
}

TEST(Quant, ZeroPointsMinimumsAndWholeRows) {
  const std::vector<std::uint8_t> codes{0, 1, 2, 3};
  const auto scales = bytes_of(Floats{3.0F});
  const std::vector<std::byte> zeros{std::byte{2}};
  QuantRows rows{{.bits = 2, .offset = Offset::kZeroPoint}, 1, 4, codes, scales, zeros, {}, {}};
  EXPECT_EQ(decoded(rows, 0), (Floats{-6.0F, -3.0F, 0.0F, 3.0F}));
  const auto minimums = bytes_of(Floats{-10.0F});
  rows.scheme.offset = Offset::kMinimum;
  rows.offsets = minimums;
  EXPECT_EQ(decoded(rows, 0), (Floats{-10.0F, -7.0F, -4.0F, -1.0F}));
}

TEST(Quant, SubScalesAndSubMinimums) {
  const std::vector<std::uint8_t> codes{1, 2, 3, 15};
  const auto scales = bytes_of(Floats{0.5F});
  const auto minimums = bytes_of(Floats{2.0F});
  const std::vector<std::uint8_t> subs{3, 63, 1, 10};  // two scales, then two minimums
  const QuantRows rows{{.bits = 4, .offset = Offset::kSubMinimum, .group = 4, .sub_group = 2},
                       1,
                       4,
                       codes,
                       scales,
                       minimums,
                       subs,
                       {}};
  EXPECT_EQ(decoded(rows, 0), (Floats{-0.5F, 1.0F, 74.5F, 452.5F}));
}

TEST(Quant, SubScalesOfSignedCodesAreSigned) {
  CodeRows rows;
  rows.resize({.bits = 4, .codes = Codes::kSigned, .group = 4, .sub_group = 2}, 1, 4);
  rows.codes = {9, 7, 9, 0};
  rows.scales = bytes_of(Floats{0.5F});
  ASSERT_EQ(rows.sub_scales.size(), 2U);
  rows.sub_scales = {3, 0xFE};
  ASSERT_TRUE(check(rows.view()).ok());
  EXPECT_EQ(decoded(rows.view(), 0), (Floats{1.5F, -1.5F, -1.0F, 8.0F}));
}

TEST(Quant, TablesPowersOfTwoBlocksOfRowsAndActOrder) {
  constexpr std::array kTable{0.0F, 0.5F, -1.0F, 6.0F};
  const std::vector<std::uint8_t> codes{0,
                                        1,
                                        2,
                                        3,  //
                                        3,
                                        3,
                                        1,
                                        1,  //
                                        1,
                                        1,
                                        1,
                                        1};
  // Rows 0 and 1 share their two scales.
  const std::vector<std::byte> scales{std::byte{127}, std::byte{130}, std::byte{0}, std::byte{255}};
  const std::vector<std::uint32_t> order{3, 0, 1, 2};
  const QuantRows rows{{.bits = 2,
                        .codes = Codes::kTable,
                        .scale = ScaleType::kE8M0,
                        .group = 2,
                        .group_rows = 2,
                        .table = kTable},
                       3,
                       4,
                       codes,
                       scales,
                       {},
                       {},
                       order};
  EXPECT_EQ(decoded(rows, 0), (Floats{48.0F, 0.0F, 0.5F, -8.0F}));
  EXPECT_EQ(decoded(rows, 1), (Floats{4.0F, 6.0F, 6.0F, 4.0F}));
  const Floats last = decoded(rows, 2);
  EXPECT_TRUE(std::isnan(last[0]));
  EXPECT_EQ(last[1], 0x1p-128F);
}

TEST(Quant, WrongSizesAreRefusedByName) {
  const std::vector<std::uint8_t> codes{0, 1, 2, 3};
  const auto scales = bytes_of(Floats{1.0F, 1.0F});
  const std::vector<std::uint32_t> order{0, 1, 2, 4};
  const QuantRows good{{.bits = 2, .group = 2}, 1, 4, codes, scales, {}, {}, {}};
  EXPECT_TRUE(check(good).ok());
  const auto refused = [&](auto change) {
    QuantRows rows = good;
    change(rows);
    return std::string(check(rows).message());
  };
  const auto has = [](const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
  };
  EXPECT_TRUE(has(refused([](QuantRows& r) { r.scheme.bits = 1; }), "code"));
  EXPECT_TRUE(has(refused([](QuantRows& r) { r.scheme.bits = 9; }), "bits"));
  EXPECT_TRUE(has(refused([](QuantRows& r) { r.scheme.group = 1; }), "scales"));
  EXPECT_TRUE(has(refused([](QuantRows& r) { r.k = 3; }), "codes"));
  EXPECT_TRUE(has(refused([](QuantRows& r) { r.scheme.offset = Offset::kZeroPoint; }), "offsets"));
  EXPECT_TRUE(has(refused([](QuantRows& r) { r.scheme.sub_group = 1; }), "sub-scales"));
  EXPECT_TRUE(has(refused([](QuantRows& r) { r.scheme.codes = Codes::kTable; }), "table"));
  EXPECT_TRUE(has(refused([&](QuantRows& r) { r.input_order = order; }), "input_order"));
}

}  // namespace
}  // namespace coxswain::tensor
