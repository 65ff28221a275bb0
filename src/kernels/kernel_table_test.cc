#include "kernels/kernel_table.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

TEST(KernelTable, EverySetIsCompleteAndNamed) {
  std::set<std::string_view> ids;
  for (const KernelTable* table : testing::runnable_tables()) {
    EXPECT_TRUE(ids.insert(table->id).second) << table->id;
    EXPECT_EQ(table->id.substr(0, name_of(table->isa).size()), name_of(table->isa));
    std::set<std::uint32_t> layouts;
    for (std::size_t type = 0; type < kWeightTypeCount; ++type) {
      EXPECT_NE(table->linear[type], nullptr);
      EXPECT_NE(table->packed_bytes[type], nullptr);
      EXPECT_NE(table->pack[type], nullptr);
      EXPECT_TRUE(layouts.insert(table->layout_id[type]).second);
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

TEST(KernelTable, AMatrixThatCannotBeHeldIsAnError) {
  const PackSource piece{nullptr, DType::kF32, std::size_t{1} << 31};
  const auto packed =
      pack_matrix(testing::scalar_table(), WeightType::kF32, std::size_t{1} << 27, {&piece, 1});
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace coxswain::kernels
