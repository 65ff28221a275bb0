// Blocks taken apart are what they are decoded to, bit for bit.

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "gguf/tensor_types.h"
#include "tensor/quant.h"
#include "weights/gguf_blocks.h"

namespace coxswain::weights {
namespace {

// Of scales that are no numbers it only counts that the values are none.
void expect_same_values(const std::vector<float>& values, const std::vector<float>& expected) {
  for (std::size_t v = 0; v < expected.size(); ++v) {
    ASSERT_EQ(std::isnan(values[v]), std::isnan(expected[v])) << v;
    if (std::isnan(expected[v])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(values[v]), std::bit_cast<std::uint32_t>(expected[v]))
        << v;
  }
}

void expect_codes_are_values(const gguf::TensorType& type, const BlockCodes& codes) {
  const std::size_t n_values = type.block_values;
  ASSERT_EQ(codes.scheme.group, n_values);
  std::mt19937 generator(1);
  tensor::CodeRows rows;
  rows.resize(codes.scheme, 1, n_values);
  const std::size_t n_subs = codes.scheme.n_sub_groups(n_values);
  std::vector<std::byte> block(type.block_bytes);
  std::vector<float> expected(n_values);
  std::vector<float> values(n_values);
  for (int i = 0; i < 500; ++i) {
    for (std::byte& byte : block) byte = static_cast<std::byte>(generator());
    find_block_decoder(type.name)(block.data(), expected.data());
    codes.split(block.data(),
                {rows.codes.data(),
                 rows.scales.data(),
                 rows.offsets.data(),
                 rows.sub_scales.data(),
                 rows.sub_scales.data() + n_subs});
    ASSERT_TRUE(tensor::check(rows.view()).ok());
    tensor::decode_row(rows.view(), 0, values.data());
    expect_same_values(values, expected);
  }
}

TEST(GgufCodes, StandForTheValuesOfTheirBlocks) {
  std::size_t n_types = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const gguf::TensorType* const type = gguf::find_tensor_type(id);
    const BlockCodes* const codes = type == nullptr ? nullptr : find_block_codes(type->name);
    if (codes == nullptr) continue;
    ++n_types;
    SCOPED_TRACE(type->name);
    expect_codes_are_values(*type, *codes);
  }
  EXPECT_EQ(n_types, 9U);
}

TEST(GgufCodes, AreNotThereForOtherTypes) {
  for (const char* const type : {"F32", "F16", "Q2_K", "IQ1_S", "I32", ""})
    EXPECT_EQ(find_block_codes(type), nullptr) << type;
}

}  // namespace
}  // namespace coxswain::weights
