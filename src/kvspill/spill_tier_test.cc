// The tier of memory and files behind an engine: outputs are those without it, after evictions, after a restart and
// whatever has become of the files.

#include "kvspill/spill_tier.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "batch/stats_history.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "kvspill/block_file.h"
#include "kvspill/memory_store.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;
using batch::BlockKey;
using batch::Engine;
using batch::EngineOptions;
using batch::GenerationRequest;
using batch::TierBlock;
using batch::TierDone;
using batch::TierJob;
using batch::TierPlace;
using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using batch::testing::Recorder;

FakeRunnerOptions fake_options(std::uint32_t n_blocks = 65) {
  FakeRunnerOptions out;
  out.n_blocks = {n_blocks};
  out.capabilities.attachments = true;
  out.capabilities.attachment_bytes_max = 20 << 10;  // pieces of a few blocks
  return out;
}

// A conversation of its own for each family.
GenerationRequest request(std::uint64_t id,
                          std::uint64_t family,
                          std::size_t n_prompt = 60,
                          std::uint32_t n_new = 9) {
  GenerationRequest out;
  out.id = RequestId{id};
  for (std::size_t i = 0; i < n_prompt; ++i)
    out.prompt.push_back(static_cast<TokenId>((i * 7 + family * (i % 5 + 1)) % 50));
  out.stopping.max_new_tokens = n_new;
  return out;
}

class SpillTierTest : public ::testing::Test {
 protected:
  SpillTierTest() { fs::remove_all(path_); }
  ~SpillTierTest() override { fs::remove_all(path_); }

  std::shared_ptr<SpillTier> open(const FakeRunnerOptions& fake = fake_options(),
                                  std::uint64_t bytes_max = 1 << 20,
                                  const base::FileCalls& calls = base::FileCalls::system()) {
    return open({.path = path_, .file_bytes_max = bytes_max, .calls = &calls}, fake);
  }
  std::shared_ptr<SpillTier> open(SpillOptions options,
                                  const FakeRunnerOptions& fake = fake_options()) {
    options.warn = [this](std::string_view line) {
      base::MutexLock lock(mu_);
      warnings_.emplace_back(line);
    };
    return std::make_shared<SpillTier>(std::move(options), FakeRunner(fake).info());
  }
  std::vector<std::string> warnings() const {
    base::MutexLock lock(mu_);
    return warnings_;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& file : fs::recursive_directory_iterator(path_)) {
      if (file.path().extension() == ".kvblock") out.push_back(file.path());
    }
    std::ranges::sort(out);
    return out;
  }

  const fs::path path_ =
      fs::path(::testing::TempDir()) / ("spill_tier_" + std::to_string(::getpid()));
  mutable base::Mutex mu_;
  std::vector<std::string> warnings_ GUARDED_BY(mu_);
};

// An engine with its runner, the rules of which were kept in the end.
struct Replica {
  Replica(const FakeRunnerOptions& options,
          std::shared_ptr<SpillTier> tier,
          std::uint32_t priority_min = 0,
          batch::EngineObserver* observer = nullptr)
      : fake(options), runner(std::make_shared<FakeRunner>(options)) {
    engine = Engine::create(
        runner,
        {.tier = std::move(tier), .tier_priority_min = priority_min, .check_invariants = true},
        observer);
  }
  ~Replica() {
    engine.reset();  // what is on its way is written
    EXPECT_TRUE(runner->violations().empty()) << runner->violations().front();
    EXPECT_TRUE(runner->attached().empty()) << "an attachment is left";
  }
  // Tokens taken from cache, memory or files.
  std::uint32_t run(const GenerationRequest& r) const {
    const auto sink = std::make_shared<Recorder>();
    EXPECT_TRUE(engine->submit(r, sink).ok());
    EXPECT_TRUE(sink->wait().ok()) << sink->wait().message();
    sink->expect_complete(expected_output(fake, r), false);
    return sink->final_event().n_cached_prompt_tokens;
  }

  FakeRunnerOptions fake;
  std::shared_ptr<FakeRunner> runner;
  std::unique_ptr<Engine> engine;
};

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

TEST_F(SpillTierTest, AMemoryWithoutRoomForABlockSaysSo) {
  const auto tier = open({.memory_bytes_max = 300});
  {
    const Replica replica(fake_options(), tier);
    for (std::uint64_t id = 1; id < 4; ++id) replica.run(request(id, id));
  }
  EXPECT_FALSE(tier->takes());
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("`kv_host_bytes_max` is 300"), std::string::npos) << warnings()[0];
}

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

// KV groups with windows, alone, beside others and with sink tokens. Blocks are of 4 tokens.
struct WindowShape {
  std::vector<std::uint32_t> windows;
  std::uint32_t sink_tokens = 0;
};
class SpillWindowTest : public SpillTierTest, public ::testing::WithParamInterface<WindowShape> {
 protected:
  static FakeRunnerOptions fake() {
    FakeRunnerOptions out = fake_options();
    out.windows = GetParam().windows;
    out.sink_tokens = GetParam().sink_tokens;
    out.n_blocks.clear();
    for (const std::uint32_t window : out.windows) out.n_blocks.push_back(window == 0 ? 60 : 50);
    return out;
  }
};

TEST_P(SpillWindowTest, ARestartAndLongerPromptsFindWhatTheirWindowsSee) {
  const SpillOptions options{.path = path_, .file_bytes_max = 1 << 20};
  {
    const Replica first(fake(), open(options, fake()));
    first.run(request(1, 1));  // its end is seen from 64 to 68
  }
  const std::size_t n_files = files().size();
  EXPECT_GT(n_files, 0U);
  EXPECT_LE(n_files, 17U);
  {
    const Replica second(fake(), open(options, fake()));
    GenerationRequest longer = request(2, 1);
    const auto said = expected_output(fake(), longer).tokens;
    longer.prompt.insert(longer.prompt.end(), said.begin(), said.end());
    for (TokenId i = 0; i < 20; ++i) longer.prompt.push_back(i);
    const std::uint32_t n = second.run(longer);
    EXPECT_GE(n, 64U);
    EXPECT_LE(n, 68U);
    EXPECT_EQ(second.engine->stats().tier.blocks_onboarded, n_files);
  }
  {
    // A third turn finds the end of the second, and another answer to the first one's end that.
    const Replica third(fake(), open(options, fake()));
    GenerationRequest longer = request(2, 1);
    auto said = expected_output(fake(), longer).tokens;
    longer.prompt.insert(longer.prompt.end(), said.begin(), said.end());
    for (TokenId i = 0; i < 20; ++i) longer.prompt.push_back(i);
    said = expected_output(fake(), longer).tokens;
    longer.prompt.insert(longer.prompt.end(), said.begin(), said.end());
    longer.prompt.push_back(1);
    EXPECT_EQ(third.run(longer), 96U);
    third.engine->replace_runner(std::make_shared<FakeRunner>(fake()));
    longer.prompt.resize(70);
    longer.prompt.push_back(49);
    EXPECT_EQ(third.run(longer), 68U);
  }
  EXPECT_TRUE(warnings().empty()) << warnings().front();
}

TEST_P(SpillWindowTest, WhatWasEvictedComesBack) {
  const auto tier = open({.memory_bytes_max = 1 << 20}, fake());
  const Replica replica(fake(), tier);
  for (std::uint64_t id = 1; replica.engine->stats().tier.blocks_onboarded < 20; ++id) {
    ASSERT_LT(id, 2000U) << "nothing comes back";
    const std::uint64_t family = id * id % 7;
    replica.run(request(id, family, 20 + id * 5 % 44, 1 + static_cast<std::uint32_t>(id % 9)));
  }
}

TEST_P(SpillWindowTest, SeveralAtOnce) {
  const auto tier =
      open({.memory_bytes_max = 20'000, .path = path_, .file_bytes_max = 20'000}, fake());
  const Replica replica(fake(), tier);
  for (std::uint64_t round = 0; replica.engine->stats().tier.blocks_onboarded < 20; ++round) {
    ASSERT_LT(round, 500U) << "nothing comes back";
    std::vector<std::shared_ptr<Recorder>> sinks;
    std::vector<GenerationRequest> requests;
    for (std::uint64_t i = 0; i < 16; ++i) {
      requests.push_back(request(
          round * 16 + i + 1, i * round % 7, 12 + i * 3, 3 + static_cast<std::uint32_t>(i % 5)));
      sinks.push_back(std::make_shared<Recorder>());
      ASSERT_TRUE(replica.engine->submit(requests.back(), sinks.back()).ok());
      if (i % 6 == 5) replica.engine->cancel(requests.back().id);
    }
    for (std::size_t i = 0; i < sinks.size(); ++i) {
      const Status status = sinks[i]->wait();
      if (status.ok()) sinks[i]->expect_complete(expected_output(fake(), requests[i]), false);
      EXPECT_TRUE(status.ok() || i % 6 == 5) << status.message();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Windows,
                         SpillWindowTest,
                         ::testing::Values(WindowShape{{0, 8}},
                                           WindowShape{{0, 14, 5}},
                                           WindowShape{{9}},
                                           WindowShape{{12, 5}, 6},
                                           WindowShape{{0, 8}, 5},
                                           WindowShape{{8, 0, 20}, 3}));

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

// A byte of each class: magic, version, key, length, checksum, tokens, frame; cut off, longer, empty, gone.
TEST_F(SpillTierTest, AFileThatIsNotRightIsRemovedCountedAndComputed) {
  {
    const Replica first(fake_options(), open());
    first.run(request(1, 1, 60, 1));
  }
  const std::vector<fs::path> used = files();
  ASSERT_EQ(used.size(), 15U);
  const std::vector<std::size_t> places{0, 8, 12, 16, 32, 40, 48, 56, 64, 80, 90, 110};
  for (std::size_t i = 0; i < places.size() + 4; ++i) {
    const fs::path& file = used[i % used.size()];
    const auto size = fs::file_size(file);
    if (i < places.size()) {
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekg(static_cast<std::streamoff>(places[i]));
      const char c = static_cast<char>(out.get() ^ 4);
      out.seekp(static_cast<std::streamoff>(places[i]));
      out.put(c);
    } else if (i == places.size()) {
      fs::resize_file(file, size - 1);
    } else if (i == places.size() + 1) {
      fs::resize_file(file, size + 1);
    } else if (i == places.size() + 2) {
      fs::resize_file(file, 0);
    }
    const auto tier = open();
    if (i == places.size() + 3) fs::remove(file);
    const Replica replica(fake_options(), tier);
    replica.run(request(1, 1, 64));  // compares the tokens
    EXPECT_EQ(tier->stats().blocks_refused, 1U) << i;
  }
  EXPECT_EQ(warnings().size(), places.size() + 4);
}

TEST_F(SpillTierTest, FilesOfAnotherModelAreLeftAlone) {
  {
    const Replica first(fake_options(), open());
    first.run(request(1, 1));
  }
  FakeRunnerOptions other = fake_options();
  other.about.model_fingerprint = 8;
  {
    const auto tier = open(other);
    const Replica second(other, tier);
    EXPECT_EQ(second.run(request(1, 1)), 0U);
    const Replica wrong(fake_options(), tier);  // a tier of another model's blocks
    wrong.run(request(1, 1));
    EXPECT_EQ(wrong.run(request(2, 1)), 56U);
    EXPECT_EQ(wrong.engine->stats().tier.blocks_onboarded, 0U);
  }
  const Replica again(fake_options(), open());
  EXPECT_EQ(again.run(request(1, 1)), 56U);
}

TEST_F(SpillTierTest, AModelThatIsNotServedGivesWay) {
  {
    const Replica first(fake_options(), open());
    first.run(request(1, 1));
  }
  const auto bytes = [&] {
    std::uint64_t n = 0;
    for (const fs::path& file : files()) n += fs::file_size(file);
    return n;
  };
  const std::uint64_t bytes_max = bytes() * 3 / 2;
  FakeRunnerOptions other = fake_options();
  other.about.model_fingerprint = 8;
  {
    const auto tier = open(other, bytes_max);
    const Replica second(other, tier);
    second.run(request(1, 1));
    while (tier->stats().blocks_held < 17) std::this_thread::yield();
    EXPECT_EQ(second.run(request(2, 1)), 56U);
  }
  EXPECT_LE(bytes(), bytes_max);
  EXPECT_GT(files().size(), 17U) << "no more has gone than had to";
  EXPECT_LT(files().size(), 34U);
  EXPECT_TRUE(warnings().empty());
}

// How many writes a disk that fills up still takes. FileCalls are plain functions and have nothing of their own.
int& n_writes_left() {
  static int n = 0;
  return n;
}

TEST_F(SpillTierTest, AFullDiskEndsTheTakingWithOneLine) {
  n_writes_left() = 5;
  base::FileCalls full = base::FileCalls::system();
  full.write = [](int fd, const void* bytes, std::size_t n) -> ssize_t {
    if (--n_writes_left() < 0) {
      errno = ENOSPC;
      return -1;
    }
    return ::write(fd, bytes, n);
  };
  const auto tier = open(fake_options(), 1 << 20, full);
  {
    const Replica replica(fake_options(), tier);
    for (std::uint64_t id = 1; id < 6; ++id) replica.run(request(id, id));
  }
  EXPECT_FALSE(tier->takes());
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("No space left"), std::string::npos) << warnings()[0];
  EXPECT_EQ(files().size(), 4U);  // and the secret
  EXPECT_GT(tier->stats().blocks_skipped, 0U);
}

TEST_F(SpillTierTest, AFolderThatCannotBeUsedKeepsNothing) {
  std::ofstream(path_.string()) << "a file";
  {
    const Replica replica(fake_options(), open());
    replica.run(request(1, 1));
  }
  fs::remove(path_);
  EXPECT_EQ(warnings().size(), 1U);
  const auto first = open();
  const auto second = open();  // in use
  EXPECT_TRUE(first->takes());
  EXPECT_FALSE(second->takes());
  EXPECT_EQ(warnings().size(), 2U);
  base::FileCalls no_rename = base::FileCalls::system();
  no_rename.rename = [](const char*, const char*) {
    errno = EACCES;
    return -1;
  };
  FakeRunnerOptions other = fake_options();
  other.about.model_fingerprint = 8;
  EXPECT_FALSE(open(other, 1 << 20, no_rename)->takes());
  EXPECT_EQ(warnings().size(), 3U);
}

TEST_F(SpillTierTest, ARunnerWhoseBlocksCannotBeKeptIsToldOf) {
  FakeRunnerOptions closed = fake_options();
  closed.capabilities.attachment_bytes_max = 0;
  EXPECT_FALSE(open(closed)->takes());
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find("hands out no blocks"), std::string::npos) << warnings()[0];
  EXPECT_FALSE(fs::exists(path_));
}

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
