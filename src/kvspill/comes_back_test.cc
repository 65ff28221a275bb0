// What comes back from the tier: after a restart, after evictions, from memory and from files, for one request and for
// many at once; and what is not kept for its priority.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "kvspill/testing/spill_tier_test.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;
using batch::GenerationRequest;
using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using batch::testing::Recorder;
using testing::fake_options;
using testing::Replica;
using testing::request;
using testing::SpillTierTest;

TEST_F(SpillTierTest, ARestartFindsItsConversations) {
  {
    const Replica first(fake_options(), open());
    EXPECT_EQ(first.run(request(1, 1)), 0U);
  }
  EXPECT_EQ(files().size(), 17U);  // 68 positions were computed, blocks of 4
  const auto tier = open();
  {
    const Replica second(fake_options(), tier);
    EXPECT_EQ(second.run(request(1, 1)), 56U);
    EXPECT_EQ(second.engine->stats().tier.blocks_onboarded, 14U);
    EXPECT_EQ(second.run(request(2, 2)), 0U);
    GenerationRequest salted = request(3, 1);  // of another identity
    salted.cache_salt = "salt";
    EXPECT_EQ(second.run(salted), 0U);
  }
  EXPECT_EQ(tier->stats().blocks_refused, 0U);
  EXPECT_TRUE(warnings().empty()) << warnings().front();
}

TEST_F(SpillTierTest, WhatWasEvictedComesBack) {
  const FakeRunnerOptions fake = fake_options(80);
  const auto tier = open(fake);
  const auto wait_for_files = [&](std::uint64_t n) {
    while (tier->stats().blocks_held < n) std::this_thread::yield();
  };
  {
    const Replica replica(fake, tier);
    for (std::uint64_t round = 0; round < 3; ++round) {
      for (std::uint64_t family = 1; family <= 8; ++family) {
        const std::uint32_t n = replica.run(request(round * 10 + family, family));
        if (round == 0) wait_for_files(family * 17);
        EXPECT_TRUE(round == 0 || n == 56) << n << " of family " << family;
      }
    }
    EXPECT_GT(replica.engine->stats().tier.blocks_onboarded, 50U);
  }
  EXPECT_EQ(tier->stats().blocks_held, files().size());
}

TEST_F(SpillTierTest, WhatWasEvictedComesBackFromMemory) {
  const FakeRunnerOptions fake = fake_options(80);
  const auto tier = open({.memory_bytes_max = 1 << 20}, fake);
  const Replica replica(fake, tier);
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t family = 1; family <= 8; ++family) {
      const std::uint32_t n = replica.run(request(round * 10 + family, family));
      while (tier->stats().memory_blocks_held < std::min<std::uint64_t>(8, family + round * 8) * 17)
        std::this_thread::yield();
      EXPECT_TRUE(round == 0 || n == 56) << n << " of family " << family;
    }
  }
  const KvTierStats stats = replica.engine->stats().tier;
  EXPECT_GT(stats.blocks_onboarded, 50U);
  EXPECT_EQ(stats.memory_blocks_onboarded, stats.blocks_onboarded);
  EXPECT_EQ(stats.blocks_held + stats.bytes_held, 0U);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(SpillTierTest, MemoryStandsInFrontOfFiles) {
  const SpillOptions both{.memory_bytes_max = 1 << 20, .path = path_, .file_bytes_max = 1 << 20};
  {
    const auto tier = open(both);
    const Replica first(fake_options(), tier);
    first.run(request(1, 1));
    while (tier->stats().blocks_held < 17) std::this_thread::yield();
    EXPECT_EQ(tier->stats().memory_blocks_held, 17U);
    EXPECT_EQ(tier->stats().blocks_offloaded, 17U);
  }
  const auto tier = open(both);
  EXPECT_EQ(tier->stats().memory_blocks_held, 0U);
  const Replica second(fake_options(), tier);
  EXPECT_EQ(second.run(request(1, 1)), 56U);
  EXPECT_EQ(tier->stats().memory_blocks_onboarded, 0U);
  EXPECT_EQ(tier->stats().memory_blocks_held, 14U);  // as they were read
  second.engine->replace_runner(std::make_shared<FakeRunner>(fake_options()));
  EXPECT_EQ(second.run(request(2, 1)), 56U);
  EXPECT_EQ(tier->stats().memory_blocks_onboarded, 14U);
}

TEST_F(SpillTierTest, SeveralAtOnce) {
  const FakeRunnerOptions fake = fake_options(120);
  {
    const Replica first(fake, open(fake));
    for (std::uint64_t f = 1; f <= 6; ++f) first.run(request(f, f));
  }
  const Replica replica(fake, open(fake));
  std::vector<std::shared_ptr<Recorder>> sinks;
  for (std::uint64_t i = 0; i < 24; ++i) {
    sinks.push_back(std::make_shared<Recorder>());
    ASSERT_TRUE(replica.engine->submit(request(100 + i, i % 8), sinks.back()).ok());
    if (i % 5 == 4) replica.engine->cancel(RequestId{100 + i});
  }
  for (std::uint64_t i = 0; i < 24; ++i) {
    const Status status = sinks[i]->wait();
    if (status.ok()) sinks[i]->expect_complete(expected_output(fake, request(0, i % 8)), false);
    EXPECT_TRUE(status.ok() || i % 5 == 4) << status.message();
  }
  EXPECT_GT(replica.engine->stats().tier.blocks_onboarded, 0U);
}

TEST_F(SpillTierTest, NothingBehindABlockOfTooLowPriorityIsKept) {
  const auto tier = open({.memory_bytes_max = 1 << 20});
  GenerationRequest r = request(1, 1);
  r.retention.ranges = {{.token_begin = 0, .token_end = 20, .priority = 40},
                        {.token_begin = 20, .token_end = 30, .priority = 29}};
  {
    const Replica replica(fake_options(), tier, 30);
    replica.run(r);
    r = request(2, 2);  // of the default priority
    replica.run(r);
    while (tier->stats().memory_blocks_held < 5 + 17) std::this_thread::yield();
  }
  EXPECT_EQ(tier->stats().memory_blocks_held, 5U + 17U);
  EXPECT_EQ(tier->stats().blocks_skipped, 0U);
}

}  // namespace
}  // namespace coxswain::kvspill
