#include "kernels/kernel_table.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "kernels/cpu/ops.h"
#include "kernels/formats/all.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

TEST(KernelTable, EverySetIsCompleteAndNamed) {
  std::set<std::string_view> ids;
  for (const KernelTable* table : testing::runnable_tables()) {
    EXPECT_TRUE(ids.insert(table->id).second) << table->id;
    EXPECT_EQ(table->id.substr(0, name_of(table->isa).size()), name_of(table->isa));
    EXPECT_NE(table->linear, nullptr);
    std::set<std::uint32_t> layouts;
    for (const WeightFormat* format : weight_formats()) {
      const LinearOps& ops = table->ops(*format);
      EXPECT_EQ(ops.format, format);
      EXPECT_NE(ops.layout, nullptr);
      EXPECT_NE(ops.pack, nullptr);
      EXPECT_NE(ops.pack_codes, nullptr);
      EXPECT_NE(ops.unpack_row, nullptr);
      EXPECT_TRUE(ops.kernel->tile != nullptr || ops.kernel->chunk != nullptr) << format->name;
      EXPECT_TRUE(layouts.insert(ops.layout_id).second) << format->name;
    }
    EXPECT_NE(table->kv_write, nullptr);
    EXPECT_NE(table->attention, nullptr);
    EXPECT_NE(table->rms_norm, nullptr);
    EXPECT_NE(table->layer_norm, nullptr);
    EXPECT_NE(table->rope, nullptr);
    EXPECT_NE(table->activation, nullptr);
    EXPECT_NE(table->add, nullptr);
  }
}

TEST(KernelTable, SelectionTakesTheHighestSetOrTheForcedOne) {
  const std::vector<Isa> isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kScalar);
  EXPECT_TRUE(std::is_sorted(isas.begin(), isas.end()));
  EXPECT_EQ((*select_kernels(""))->isa, isas.back());
  for (const Isa isa : isas) EXPECT_EQ((*select_kernels(name_of(isa)))->isa, isa);
}

TEST(KernelTable, UnknownSetIsRefusedWithTheOnesThatRun) {
  const auto result = select_kernels("neon");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().message().find("neon"), std::string::npos);
  EXPECT_NE(result.status().message().find("scalar"), std::string::npos);
}

TEST(WeightFormats, IdsAndNamesAreTheirOwn) {
  std::set<FormatId> ids;
  for (const WeightFormat* format : weight_formats()) {
    EXPECT_TRUE(ids.insert(format->id).second) << format->name;
    EXPECT_EQ(find_format(format->name), format);
    EXPECT_NE(format->encode, nullptr);
    EXPECT_NE(format->decode, nullptr);
    EXPECT_EQ(format->encode_codes != nullptr, format->is_quantised());
  }
  EXPECT_EQ(find_format("int3"), nullptr);
  EXPECT_EQ(quantised_names(), "int8, int4, int4-g128");
  EXPECT_EQ(&plain_format(tensor::DType::kF16), &formats::kFloat16);
}

TEST(WeightFormats, ASchemeFindsTheFormatThatTakesItAsItIs) {
  const KernelTable& table = testing::scalar_table();
  for (const WeightFormat* format : weight_formats()) {
    if (!format->is_quantised()) continue;
    EXPECT_EQ(table.ops_for(format->scheme), &table.ops(*format));
  }
  tensor::QuantScheme other = formats::kInt4.scheme;
  other.group = 48;
  EXPECT_EQ(table.ops_for(other), nullptr);
}

// Scales of larger groups are repeated, as seldom as may be.
TEST(WeightFormats, LargerGroupsAreHeldInSmallerOnes) {
  const KernelTable& table = testing::scalar_table();
  tensor::QuantScheme scheme = formats::kInt4.scheme;
  for (const auto& [group, format] : {std::pair{64U, &formats::kInt4},
                                      {96U, &formats::kInt4},
                                      {256U, &formats::kInt4G128},
                                      {0U, &formats::kInt4G128}}) {
    scheme.group = group;
    EXPECT_EQ(table.ops_for(scheme), &table.ops(*format)) << group;
  }
  scheme.scale = tensor::ScaleType::kBf16;
  EXPECT_EQ(table.ops_for(scheme), nullptr);
}

TEST(KernelTable, AMatrixThatCannotBeHeldIsAnError) {
  const DenseRows piece{nullptr, DType::kF32, std::size_t{1} << 31};
  const auto packed = pack_matrix(
      testing::scalar_table().ops(formats::kFloat32), std::size_t{1} << 27, {&piece, 1});
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace coxswain::kernels
