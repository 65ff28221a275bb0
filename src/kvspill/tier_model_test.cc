// Random operations on a tier against a naive model of what it should hold, for each of its levels.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "batch/testing/fake_runner.h"
#include "kvspill/block_file.h"
#include "kvspill/memory_store.h"
#include "kvspill/testing/spill_tier_test.h"

namespace coxswain::kvspill {
namespace {

using batch::BlockKey;
using batch::TierBlock;
using batch::TierDone;
using batch::TierPlace;
using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using testing::fake_options;
using testing::SpillTierTest;

// Waits for one job of a tier.
template <typename F>
std::uint32_t result_of(const F& begin) {
  base::Mutex mu;
  base::CondVar changed;
  std::optional<std::uint32_t> out;
  begin([&](const TierDone& done) {
    base::MutexLock lock(mu);
    out = done.n_blocks;
    changed.notify_all();
  });
  base::MutexLock lock(mu);
  changed.wait(lock, [&] { return out.has_value(); });
  return *out;
}

// What a tier should hold: everything with priority and last use, and what goes first is removed.
struct NaiveTier {
  struct Held {
    std::uint32_t priority = 0;
    std::uint64_t used_at = 0;
    std::uint64_t bytes = 0;
  };
  std::uint64_t bytes_max = 0;
  std::map<BlockKey, Held> held = {};
  std::uint64_t tick = 0;

  void use(const BlockKey& key) {
    if (const auto it = held.find(key); it != held.end()) it->second.used_at = ++tick;
  }
  void store(const TierBlock& block, std::uint64_t bytes) {
    std::uint64_t sum = bytes;
    for (const auto& [key, h] : held) sum += h.bytes;
    while (!held.empty() && sum > bytes_max) {
      const auto first = std::ranges::min_element(
          held, {}, [](const auto& h) { return std::pair(h.second.priority, h.second.used_at); });
      sum -= first->second.bytes;
      held.erase(first);
    }
    held[block.key] = {block.priority, ++tick, bytes};
  }
};

// In files, or in memory.
class SpillLevelTest : public SpillTierTest, public ::testing::WithParamInterface<bool> {
 protected:
  static bool in_memory() { return GetParam(); }
  static std::uint64_t blocks_of(const KvTierStats& stats) {
    return in_memory() ? stats.memory_blocks_held : stats.blocks_held;
  }
  static std::uint64_t bytes_of(const KvTierStats& stats) {
    return in_memory() ? stats.memory_bytes_held : stats.bytes_held;
  }
};

TEST_P(SpillLevelTest, RandomOperationsAgainstANaiveModel) {
  const FakeRunnerOptions fake = fake_options();
  const auto runner = std::make_shared<FakeRunner>(fake);
  const KvLayout layout = kv_layout_of(runner->info());
  NaiveTier naive{.bytes_max = in_memory() ? 8000U : 2000U};
  auto tier =
      in_memory() ? open({.memory_bytes_max = naive.bytes_max}, fake) : open(fake, naive.bytes_max);
  std::uint64_t attachment = 1;
  std::mt19937_64 random(7);
  const std::vector<std::uint32_t> groups{1};
  const auto store = [&](const TierBlock& block, const std::string& bytes) {
    const std::vector<std::string> blocks{bytes};
    EXPECT_TRUE(
        runner->attach({.id = ++attachment, .bytes = join_image(layout, blocks, groups)}).ok());
    return result_of([&](auto done) { tier->store({runner, attachment, {block}, done}); });
  };
  for (int step = 0; step < 2000; ++step) {
    const std::vector<TokenId> tokens(4, static_cast<TokenId>(random() % 30));
    const TierBlock block{.key = tier->keys("identity", tokens, 4)[0],
                          .tokens = tokens,
                          .priority = static_cast<std::uint32_t>(random() % 3) * 50};
    const bool is_held = naive.held.contains(block.key);
    switch (random() % 3) {
      case 0: {
        const std::string bytes(block_bytes(layout, 1), static_cast<char>('a' + random() % 20));
        ASSERT_EQ(store(block, bytes), is_held ? 0U : 1U);
        const std::uint64_t size =
            in_memory()
                ? bytes.size() + tokens.size() * sizeof(TokenId) + MemoryStore::kOverheadBytes
                : write_block(layout_hash(layout), block, bytes).size();
        if (!is_held) naive.store(block, size);
        break;
      }
      case 1: {
        const std::vector<BlockKey> keys{block.key};
        const TierPlace place = tier->places(keys)[0];
        ASSERT_EQ(place.groups, is_held ? 1U : 0U);
        ASSERT_EQ(place.level, is_held ? (in_memory() ? 1U : 2U) : 0U);
        ASSERT_EQ(place.priority, is_held ? naive.held.at(block.key).priority : 0U);
        tier->touch(keys);
        naive.use(block.key);
        break;
      }
      default:
        ASSERT_EQ(blocks_of(tier->stats()), naive.held.size());
        ASSERT_TRUE(in_memory() || files().size() == naive.held.size());
        ASSERT_LE(bytes_of(tier->stats()), naive.bytes_max);
    }
  }
  EXPECT_GT(naive.held.size(), 3U);
  EXPECT_LT(naive.held.size(), 30U) << "nothing had to go";
  EXPECT_TRUE(warnings().empty()) << warnings().front();
}

INSTANTIATE_TEST_SUITE_P(Levels, SpillLevelTest, ::testing::Bool());

}  // namespace
}  // namespace coxswain::kvspill
