#include "model/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::model {
namespace {

using ::testing::ElementsAre;

LayerSpec layer(std::uint32_t window, std::uint32_t n_kv_heads, std::uint32_t head_dim) {
  LayerSpec out;
  out.attention().n_heads = 8;
  out.attention().n_kv_heads = n_kv_heads;
  out.attention().head_dim = head_dim;
  out.attention().window = window;
  return out;
}

TEST(Describe, LayersThatKeepTheSameShareAGroup) {
  ArchSpec arch;
  arch.layers = {
      layer(9, 2, 16), layer(0, 2, 16), layer(9, 2, 16), layer(0, 4, 16), layer(5, 2, 16)};
  const ModelInfo info = describe(arch);
  ASSERT_EQ(info.kv_groups.size(), 4U);
  EXPECT_THAT(info.kv_groups[0].layers, ElementsAre(1U)) << "those that see everything come first";
  EXPECT_THAT(info.kv_groups[1].layers, ElementsAre(3U)) << "more heads are another shape";
  EXPECT_THAT(info.kv_groups[2].layers, ElementsAre(4U));
  EXPECT_THAT(info.kv_groups[3].layers, ElementsAre(0U, 2U));
  EXPECT_EQ(info.kv_groups[1].kind, KvGroup::Kind::kFull);
  EXPECT_EQ(info.kv_groups[3].kind, KvGroup::Kind::kWindow);
  EXPECT_EQ(info.kv_groups[3].window, 9U);
  ASSERT_EQ(info.kv_layers.size(), 5U);
  EXPECT_EQ(info.kv_layers[3].group, 1U);
  EXPECT_EQ(info.kv_layers[3].n_kv_heads, 4U);
  EXPECT_EQ(info.kv_layers[3].v_head_dim, 16U);
}

}  // namespace
}  // namespace coxswain::model
