#include "kvspill/block_file.h"

#include <gtest/gtest.h>

namespace coxswain::kvspill {
namespace {

KvLayout make_layout() {
  return {.model_fingerprint = 5,
          .kernel_set_id = "scalar",
          .block_tokens = 4,
          .groups = {{.bytes_per_block = 64}, {.bytes_per_block = 24}}};
}

const batch::TierBlock kBlock{.key = {.high = 3, .low = 4}, .tokens = {1, 2, 3, 4}};
constexpr std::uint64_t kHash = 77;

TEST(BlockFile, WhatWasWrittenIsRead) {
  const std::string bytes = std::string(100, 'a') + std::string(100, 'b');
  const std::string file = write_block(kHash, kBlock, bytes);
  EXPECT_LT(file.size(), bytes.size() + kBlockFileHeadBytes);
  EXPECT_EQ(read_block(kHash, kBlock, bytes.size(), file).value(), bytes);
}

// Every byte of the head, the tokens and the frame.
TEST(BlockFile, NoByteMayDifferBeMissingOrMore) {
  const std::string bytes(200, 'a');
  const std::string file = write_block(kHash, kBlock, bytes);
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string broken = file;
    broken[at] = static_cast<char>(broken[at] ^ (1 << (at % 8)));
    ASSERT_FALSE(read_block(kHash, kBlock, bytes.size(), broken).ok()) << "byte " << at;
    ASSERT_FALSE(read_block(kHash, kBlock, bytes.size(), file.substr(0, at)).ok()) << at;
  }
  EXPECT_FALSE(read_block(kHash, kBlock, bytes.size(), file + 'x').ok());
}

TEST(BlockFile, AnotherBlockIsRefused) {
  const std::string bytes(200, 'a');
  const std::string file = write_block(kHash, kBlock, bytes);
  EXPECT_EQ(read_block(kHash + 1, kBlock, bytes.size(), file).status().code(),
            Code::kInvalidArgument);
  EXPECT_FALSE(read_block(kHash, kBlock, bytes.size() + 1, file).ok());
  batch::TierBlock other = kBlock;
  other.key.low = 5;
  EXPECT_FALSE(read_block(kHash, other, bytes.size(), file).ok());
  other = kBlock;
  other.groups = 3;
  EXPECT_FALSE(read_block(kHash, other, bytes.size(), file).ok());
  other = kBlock;
  other.tokens[3] = 5;
  EXPECT_FALSE(read_block(kHash, other, bytes.size(), file).ok());
}

TEST(BlockFile, AnImageIsItsBlocksAgain) {
  const KvLayout layout = make_layout();
  const std::vector<std::uint32_t> groups{3, 1, 3, 2};  // of two groups the second block has one
  std::vector<std::string> blocks;
  for (std::size_t i = 0; i < groups.size(); ++i)
    blocks.emplace_back(block_bytes(layout, groups[i]), static_cast<char>('a' + i));
  blocks[0][70] = 'x';
  const std::string image = join_image(layout, blocks, groups);
  EXPECT_EQ(split_image(layout, image, groups).value(), blocks);
  EXPECT_FALSE(split_image(layout, image, std::vector<std::uint32_t>{3, 3, 3, 2}).ok());
  EXPECT_FALSE(split_image(layout, image + "x", groups).ok());
}

TEST(BlockFile, GroupsOfABlockAreTakenApartAndPutTogether) {
  const KvLayout layout = make_layout();
  const std::string first(block_bytes(layout, 1), 'a');
  const std::string second(block_bytes(layout, 2), 'b');
  EXPECT_EQ(merge_groups(layout, 1, first, 2, second), first + second);
  EXPECT_EQ(merge_groups(layout, 2, second, 1, first), first + second);
  EXPECT_EQ(merge_groups(layout, 2, second, 3, first + std::string(second.size(), 'c')),
            first + second);
  EXPECT_EQ(select_groups(layout, 3, first + second, 1), first);
  EXPECT_EQ(select_groups(layout, 3, first + second, 2), second);
  EXPECT_EQ(select_groups(layout, 3, first + second, 3), first + second);
}

}  // namespace
}  // namespace coxswain::kvspill
