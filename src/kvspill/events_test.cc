// KV events of an engine with a tier: a consumer that follows them knows the level of each block.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "batch/stats_history.h"
#include "batch/testing/fake_runner.h"
#include "kvspill/testing/spill_tier_test.h"

namespace coxswain::kvspill {
namespace {

using batch::testing::FakeRunnerOptions;
using testing::fake_options;
using testing::Replica;
using testing::request;
using testing::SpillTierTest;

// What a consumer of events knows: the level of each block.
struct Mirror {
  std::map<std::uint64_t, std::uint32_t> levels = {};
  std::map<std::uint32_t, std::size_t> n_demoted = {};  // by level
  std::size_t n_promoted = 0;
  std::size_t n_removed = 0;

  void follow(const KvEvent& event) {
    if (event.kind == KvEvent::Kind::kCreated) levels.clear();
    EXPECT_TRUE(event.kind != KvEvent::Kind::kStored || event.parent != 0);
    for (const KvEventBlock& block : event.blocks) {
      if (event.kind == KvEvent::Kind::kStored) {
        EXPECT_TRUE(levels.emplace(block.hash, block.cache_level).second) << "stored twice";
        EXPECT_EQ(block.tokens.size(), 4U);
      } else if (event.kind == KvEvent::Kind::kRemoved) {
        EXPECT_EQ(levels.erase(block.hash), 1U) << "removed and not stored";
        ++n_removed;
      } else {
        follow_update(block);
      }
    }
  }
  void follow_update(const KvEventBlock& block) {
    ASSERT_TRUE(levels.contains(block.hash)) << "changed and not stored";
    std::uint32_t& level = levels.at(block.hash);
    EXPECT_EQ(level, block.cache_level_before);
    EXPECT_EQ(block.priority, kRetentionPriorityDefault);
    EXPECT_EQ(block.priority_before, kRetentionPriorityDefault);
    n_demoted[block.cache_level] += block.cache_level > level ? 1 : 0;
    n_promoted += block.cache_level == 0 && level > 0 ? 1 : 0;
    level = block.cache_level;
  }
  bool has_seen_all() const {
    return n_promoted > 20 && n_removed > 0 && n_demoted.contains(1) && n_demoted.at(1) > 20 &&
           n_demoted.contains(2) && n_demoted.at(2) > 5;
  }
  std::size_t n_at(std::uint32_t level) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(levels, [&](const auto& each) { return each.second == level; }));
  }
};

void expect_created(const KvEvent& event, const std::vector<std::uint32_t>& capacity) {
  EXPECT_EQ(event.id, 1U);
  EXPECT_EQ(event.n_blocks, 79U);
  EXPECT_EQ(event.tier_blocks, capacity);
}

TEST_F(SpillTierTest, EventsTellTheLevelOfABlock) {
  const FakeRunnerOptions fake = fake_options(80);
  const SpillOptions options{.memory_bytes_max = 30'000, .path = path_, .file_bytes_max = 12'000};
  for (const bool restarted : {false, true}) {
    const auto tier = open(options, fake);
    const std::vector<std::uint32_t> capacity = tier->capacity();
    ASSERT_EQ(capacity.size(), 2U);
    batch::StatsHistory history({.kv_events_max = 100'000});
    Mirror mirror;
    const auto follow_all = [&] {
      for (const KvEvent& event : history.take_kv_events().events) {
        if (event.kind == KvEvent::Kind::kCreated) expect_created(event, capacity);
        mirror.follow(event);
      }
    };
    {
      const Replica replica(fake, tier, 0, &history);
      for (std::uint64_t id = 1; !mirror.has_seen_all(); ++id) {
        ASSERT_LT(id, 5000U) << "a kind of event does not come";
        replica.run(request(id, id * id % 11));
        follow_all();
      }
    }
    follow_all();
    const KvTierStats stats = tier->stats();
    EXPECT_LE(mirror.n_at(0), 79U);
    EXPECT_GT(mirror.n_at(0), 40U);
    EXPECT_LE(mirror.n_at(1), stats.memory_blocks_held);
    EXPECT_LE(mirror.n_at(2), stats.blocks_held);
    EXPECT_TRUE(warnings().empty()) << restarted;
  }
}

}  // namespace
}  // namespace coxswain::kvspill
