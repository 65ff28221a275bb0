#include "kvstore/kv_store.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/page_arena.h"

namespace coxswain::kvstore {
namespace {

using ::testing::HasSubstr;

KvStoreOptions two_groups() {
  return {.type = tensor::DType::kBf16,
          .block_tokens = 4,
          .n_blocks = {3, 2},
          .layers = {{.group = 0, .n_kv_heads = 2, .k_head_dim = 8, .v_head_dim = 6},
                     {.group = 1, .n_kv_heads = 1, .k_head_dim = 8, .v_head_dim = 8}}};
}

TEST(KvStore, SizesFollowTheShapes) {
  const KvStoreOptions options = two_groups();
  EXPECT_EQ(KvStore::bytes_per_block(options, 0), 2U * 4 * (8 + 6) * 2);
  EXPECT_EQ(KvStore::bytes_per_block(options, 1), 1U * 4 * (8 + 8) * 2);
  auto store = KvStore::create(options);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(store->bytes(),
            3 * KvStore::bytes_per_block(options, 0) + 2 * KvStore::bytes_per_block(options, 1));
  const auto view = store->layer(0);
  EXPECT_EQ(view.k_block_stride_bytes, 2U * 4 * 8 * 2);
  EXPECT_EQ(view.v_block_stride_bytes, 2U * 4 * 6 * 2);
  EXPECT_EQ(view.block_tokens, 4U);
}

// 40 regions of 33 blocks that are a sixteenth of a huge page each.
TEST(KvStore, LayersReachANewHugePageAtDifferentBlocks) {
  KvStoreOptions options;
  options.type = tensor::DType::kF32;
  options.n_blocks = {33};
  options.layers.assign(20, {.group = 0, .n_kv_heads = 16, .k_head_dim = 128, .v_head_dim = 128});
  auto store = KvStore::create(options);
  ASSERT_TRUE(store.ok()) << store.status().message();
  const std::size_t page = tensor::kHugePageBytes;
  std::vector<std::size_t> n_new(33);  // pages first touched with this block
  std::set<std::size_t> pages;
  for (std::size_t b = 0; b < n_new.size(); ++b) {
    const auto touch = [&](const std::byte* begin, std::size_t stride) {
      ASSERT_EQ(stride, page / 16);
      const auto first = reinterpret_cast<std::uintptr_t>(begin) + b * stride;
      for (const std::size_t at : {first, first + stride - 1})
        n_new[b] += pages.insert(at / page).second ? 1 : 0;
    };
    for (std::uint32_t i = 0; i < 20; ++i) {
      const auto view = store->layer(i);
      touch(view.k, view.k_block_stride_bytes);
      touch(view.v, view.v_block_stride_bytes);
    }
  }
  n_new[0] = 0;  // where each region begins
  EXPECT_LE(std::ranges::max(n_new), 4U);
}

TEST(KvStore, Int8HasAScaleAndAZeroForEachHeadAndToken) {
  KvStoreOptions options = two_groups();
  options.type = tensor::DType::kI8;
  EXPECT_EQ(KvStore::bytes_per_block(options, 0), 2U * 4 * (8 + 6 + 2 * 8));
  auto store = KvStore::create(options);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(store->layer(0).k_block_stride_bytes, 2U * 4 * (8 + 8));
  EXPECT_EQ(store->layer(0).v_block_stride_bytes, 2U * 4 * (6 + 8));
}

TEST(KvStore, Int4HasTwoValuesInAByte) {
  KvStoreOptions options = two_groups();
  options.type = tensor::DType::kI4;
  options.layers[1].k_head_dim = 65;  // 32 bytes and one
  EXPECT_EQ(KvStore::bytes_per_block(options, 0), 2U * 4 * (4 + 3 + 2 * 8));
  EXPECT_EQ(KvStore::bytes_per_block(options, 1), 1U * 4 * (33 + 4 + 2 * 8));
}

void expect_copy(tensor::DType type) {
  KvStoreOptions options = two_groups();
  options.type = type;
  auto store = KvStore::create(options);
  ASSERT_TRUE(store.ok());
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    const auto view = store->layer(layer);
    std::memset(view.k, 1 + static_cast<int>(layer), view.k_block_stride_bytes);
    std::memset(view.v, 11 + static_cast<int>(layer), view.v_block_stride_bytes);
  }
  store->move_block({.kv_group = 0, .from = {.id = 0}, .to = {.id = 2}});
  const auto copied = store->layer(0);
  const auto other = store->layer(1);
  EXPECT_EQ(std::to_integer<int>(copied.k[2 * copied.k_block_stride_bytes]), 1);
  EXPECT_EQ(std::to_integer<int>(copied.k[3 * copied.k_block_stride_bytes - 1]), 1);
  EXPECT_EQ(std::to_integer<int>(copied.v[3 * copied.v_block_stride_bytes - 1]), 11);
  EXPECT_EQ(std::to_integer<int>(copied.k[copied.k_block_stride_bytes]), 0);
  EXPECT_EQ(std::to_integer<int>(other.k[other.k_block_stride_bytes]), 0);
}

TEST(KvStore, CopiesOneBlockOfOneGroup) {
  for (const tensor::DType type : tensor::kCacheTypes) {
    SCOPED_TRACE(tensor::name_of(type));
    expect_copy(type);
  }
}

TEST(KvStore, ABlockCopiedToItselfStaysAsItIs) {
  auto store = KvStore::create(two_groups());
  ASSERT_TRUE(store.ok());
  const auto view = store->layer(0);
  std::memset(view.k, 7, view.k_block_stride_bytes);
  store->move_block({.kv_group = 0, .from = {.id = 0}, .to = {.id = 0}});
  EXPECT_EQ(std::to_integer<int>(view.k[0]), 7);
  EXPECT_EQ(std::to_integer<int>(view.k[view.k_block_stride_bytes - 1]), 7);
}

TEST(KvStore, RefusesSizesOutOfRange) {
  const auto refused = [](auto change, const char* why) {
    KvStoreOptions options = two_groups();
    change(options);
    const auto store = KvStore::create(options);
    ASSERT_FALSE(store.ok()) << why;
    EXPECT_THAT(store.status().message(), HasSubstr(why));
  };
  refused([](KvStoreOptions& o) { o.block_tokens = 12; }, "power of two");
  refused([](KvStoreOptions& o) { o.block_tokens = 512; }, "power of two");
  refused([](KvStoreOptions& o) { o.block_tokens = 0; }, "power of two");
  refused([](KvStoreOptions& o) { o.layers[1].group = 2; }, "group 2 of 2");
  refused([](KvStoreOptions& o) { o.layers[1].n_kv_heads = 0; }, "0 heads of 8 and 8 values");
  refused([](KvStoreOptions& o) { o.n_blocks[0] = 0; }, "number of blocks of a group is 0");
  refused([](KvStoreOptions& o) { o.n_blocks[0] = kReleasedBlock; }, "must be 1 to 4294967294");
  refused([](KvStoreOptions& o) { o.layers.clear(); }, "number of layers is 0, must be 1 to 1000");
}

TEST(KvStore, SaysHowManyBytesItCouldNotHave) {
  KvStoreOptions options = two_groups();
  options.n_blocks = {0xFFFFFFFEU, 1};
  options.layers[0].n_kv_heads = 1U << 16;
  options.layers[0].k_head_dim = 1U << 16;
  const auto store = KvStore::create(options);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(store.status().message(), HasSubstr("bytes"));
}

}  // namespace
}  // namespace coxswain::kvstore
