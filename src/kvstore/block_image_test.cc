#include "kvstore/block_image.h"

#include <cstring>

#include <gtest/gtest.h>

namespace coxswain::kvstore {
namespace {

RunnerInfo info_of(std::uint32_t n_blocks) {
  RunnerInfo info;
  info.model_fingerprint = 7;
  info.kernel_set_id = "k";
  info.block_tokens = 4;
  for (std::uint32_t g = 0; g < 2; ++g) {
    KvGroup group{.layers =
                      g == 0 ? std::vector<std::uint32_t>{0, 2} : std::vector<std::uint32_t>{1}};
    group.n_blocks = n_blocks;
    group.dtype = "float32";
    group.n_kv_heads = 2;
    group.k_dim = 3;
    group.v_dim = 5;
    group.bytes_per_block = group.layers.size() * 2 * 4 * (3 + 5) * sizeof(float);
    info.kv_groups.push_back(group);
  }
  return info;
}

KvStore store_of(const RunnerInfo& info) {
  KvStoreOptions options;
  options.type = tensor::DType::kF32;
  options.block_tokens = 4;
  for (const KvGroup& group : info.kv_groups) options.n_blocks.push_back(group.n_blocks);
  for (const std::uint32_t group : {0U, 1U, 0U})
    options.layers.push_back({.group = group, .n_kv_heads = 2, .k_head_dim = 3, .v_head_dim = 5});
  auto store = KvStore::create(options);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(store).value();
}

// Every byte of every block is another one than that of its neighbours.
void fill(KvStore& store, const RunnerInfo& info) {
  for (std::uint32_t g = 0; g < 2; ++g) {
    std::vector<std::byte> bytes(info.kv_groups[g].bytes_per_block);
    for (BlockId b = 0; b < info.kv_groups[g].n_blocks; ++b) {
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>((i * 31 + b * 7 + g * 3) % 251);
      store.copy_in(g, b, bytes);
    }
  }
}

std::vector<std::byte> block_of(const KvStore& store,
                                const RunnerInfo& info,
                                std::uint32_t g,
                                BlockId b) {
  std::vector<std::byte> out(info.kv_groups[g].bytes_per_block);
  store.copy_out(g, b, out);
  return out;
}

TEST(BlockImage, BlocksArriveAtOtherIdsByteForByte) {
  const RunnerInfo here = info_of(6);
  const RunnerInfo there = info_of(9);
  const KvLayout layout = kv_layout_of(here);
  ASSERT_EQ(layout, kv_layout_of(there));
  EXPECT_EQ(KvStore::bytes_per_block(store_of(here).options(), 0),
            here.kv_groups[0].bytes_per_block);
  KvStore from = store_of(here);
  KvStore to = store_of(there);
  fill(from, here);
  const std::vector<std::vector<BlockId>> source{{5, 1, 2}, {3}};
  const std::vector<std::vector<BlockId>> target{{8, 0, 4}, {7}};
  const std::string image = export_blocks(layout, from, source);
  EXPECT_EQ(image.size(), blocks_attachment_bytes(layout, std::vector<std::uint32_t>{3, 1}));
  ASSERT_TRUE(check_image(layout, image).ok());
  EXPECT_EQ(contents_of(layout, image), (ImageContents{.n_blocks = {3, 1}}));
  import_blocks(layout, image, to, target);
  for (std::uint32_t g = 0; g < 2; ++g) {
    for (std::size_t i = 0; i < source[g].size(); ++i)
      EXPECT_EQ(block_of(to, there, g, target[g][i]), block_of(from, here, g, source[g][i]));
  }
  EXPECT_EQ(export_blocks(layout, to, target), image);
}

// Layers 0 and 2 are of group 0, layer 1 is group 1.
TEST(BlockImage, SomeLayersPassAndLeaveTheOthers) {
  const RunnerInfo info = info_of(6);
  const KvLayout layout = kv_layout_of(info);
  KvStore from = store_of(info);
  fill(from, info);
  const std::vector<std::vector<BlockId>> source{{5, 1}, {3}};
  const std::vector<std::vector<BlockId>> target{{2, 4}, {0}};
  for (std::uint32_t k = 1; k < 3; ++k) {
    KvStore to = store_of(info);
    const std::vector<std::byte> before = block_of(to, info, 0, 2);
    const LayerRange low{.begin = 0, .end = k};
    const LayerRange high{.begin = k, .end = 3};
    const std::string first = export_blocks(layout, from, source, low);
    const std::string second = export_blocks(layout, from, source, high);
    for (const auto& [image, layers] : {std::pair(first, low), std::pair(second, high)}) {
      ASSERT_TRUE(check_image(layout, image).ok());
      EXPECT_EQ(contents_of(layout, image), (ImageContents{.layers = layers, .n_blocks = {2, 1}}));
    }
    import_blocks(layout, first, to, target);
    const auto n = static_cast<std::ptrdiff_t>(layout.groups[0].bytes_per_block / 2);
    const std::vector<std::byte> half = block_of(to, info, 0, 2);
    const std::vector<std::byte> whole = block_of(from, info, 0, 5);
    EXPECT_TRUE(std::equal(half.begin(), half.begin() + n, whole.begin()));
    EXPECT_TRUE(std::equal(half.begin() + n, half.end(), before.begin() + n))
        << "the last layer of the group is not in it";
    import_blocks(layout, second, to, target);
    EXPECT_EQ(export_blocks(layout, to, target), export_blocks(layout, from, source));
  }
  std::string none = export_blocks(layout, from, source, {.begin = 1, .end = 2});
  const std::size_t at = 2 * sizeof(std::uint32_t) + describe(layout).size();
  none[at] = 2;
  EXPECT_EQ(check_image(layout, none).message(), "KV blocks: the image has no layers");
}

TEST(BlockImage, EveryByteCounts) {
  const RunnerInfo info = info_of(4);
  const KvLayout layout = kv_layout_of(info);
  KvStore store = store_of(info);
  fill(store, info);
  const std::string image =
      export_blocks(layout, store, std::vector<std::vector<BlockId>>{{1}, {2}});
  for (std::size_t i = 0; i < image.size(); ++i) {
    std::string broken = image;
    broken[i] = static_cast<char>(broken[i] ^ 4);
    EXPECT_FALSE(check_image(layout, broken).ok()) << "byte " << i;
    EXPECT_FALSE(check_image(layout, std::string_view(image).substr(0, i)).ok()) << i << " bytes";
  }
  EXPECT_FALSE(check_image(layout, image + "x").ok());
  std::string payload = image;
  payload.back() ^= 1;
  EXPECT_EQ(check_image(layout, payload).message(),
            "KV blocks: block 0 of group 1 has a wrong checksum");
}

TEST(BlockImage, WhatDiffersIsNamed) {
  const KvLayout layout = kv_layout_of(info_of(4));
  KvStore store = store_of(info_of(4));
  const std::string image = export_blocks(layout, store, std::vector<std::vector<BlockId>>{{}, {}});
  EXPECT_TRUE(check_image(layout, image).ok()) << "no block is an image too";
  const auto refusal = [&](auto change) {
    RunnerInfo info = info_of(4);
    change(info);
    return check_image(kv_layout_of(info), image).message();
  };
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.kernel_set_id = "other"; }),
            "KV blocks: of another layout: kernel_set_id=k, here kernel_set_id=other");
  EXPECT_EQ(
      refusal([](RunnerInfo& i) { i.kv_groups[0].dtype = "int8"; }),
      "KV blocks: of another layout: kv_groups[0].dtype=float32, here kv_groups[0].dtype=int8");
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.kv_groups[1].window = 9; }),
            "KV blocks: of another layout: kv_groups[1].window=0, here kv_groups[1].window=9");
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.kv_groups[0].layers = {0}; }),
            "KV blocks: of another layout: kv_groups[0].layers=0 2 , here kv_groups[0].layers=0 ");
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.kv_groups[1].n_kv_heads = 0; }),
            "KV blocks: the layers of a KV group differ in shape");
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.kv_groups[1].n_blocks = 77; }), "");
}

TEST(KvLayout, BlocksForCountsByGroup) {
  KvGroup group;
  EXPECT_EQ(blocks_for(group, 16, 0), 0U);
  EXPECT_EQ(blocks_for(group, 16, 16), 1U);
  EXPECT_EQ(blocks_for(group, 16, 17), 2U);
  EXPECT_EQ(blocks_for(group, 16, 0xFFFFFFFFU), 0x10000000U);
  group.kind = KvGroup::Kind::kState;
  EXPECT_EQ(blocks_for(group, 16, 0), 0U);
  EXPECT_EQ(blocks_for(group, 16, 1000), 1U);
}

}  // namespace
}  // namespace coxswain::kvstore
