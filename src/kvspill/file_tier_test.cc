// The tier of files behind an engine: outputs are those without it, after evictions, after a restart and whatever has
// become of the files.

#include "kvspill/file_tier.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "kvspill/block_file.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;
using batch::BlockKey;
using batch::Engine;
using batch::EngineOptions;
using batch::GenerationRequest;
using batch::TierBlock;
using batch::TierJob;
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

class FileTierTest : public ::testing::Test {
 protected:
  FileTierTest() { fs::remove_all(path_); }
  ~FileTierTest() override { fs::remove_all(path_); }

  std::shared_ptr<FileTier> open(const FakeRunnerOptions& fake = fake_options(),
                                 std::uint64_t bytes_max = 1 << 20,
                                 const base::FileCalls& calls = base::FileCalls::system()) {
    return std::make_shared<FileTier>(FileTierOptions{.path = path_,
                                                      .bytes_max = bytes_max,
                                                      .warn =
                                                          [this](std::string_view line) {
                                                            base::MutexLock lock(mu_);
                                                            warnings_.emplace_back(line);
                                                          },
                                                      .calls = &calls},
                                      FakeRunner(fake).info());
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
      fs::path(::testing::TempDir()) / ("file_tier_" + std::to_string(::getpid()));
  mutable base::Mutex mu_;
  std::vector<std::string> warnings_ GUARDED_BY(mu_);
};

// An engine with its runner, the rules of which were kept in the end.
struct Replica {
  Replica(const FakeRunnerOptions& options, std::shared_ptr<FileTier> tier)
      : fake(options), runner(std::make_shared<FakeRunner>(options)) {
    engine = Engine::create(runner, {.tier = std::move(tier), .check_invariants = true});
  }
  ~Replica() {
    engine.reset();  // what is on its way is written
    EXPECT_TRUE(runner->violations().empty()) << runner->violations().front();
    EXPECT_TRUE(runner->attached().empty()) << "an attachment is left";
  }
  // Tokens taken from cache or files.
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

TEST_F(FileTierTest, ARestartFindsItsConversations) {
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
  EXPECT_TRUE(warnings().empty());
}

TEST_F(FileTierTest, WhatWasEvictedComesBack) {
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

TEST_F(FileTierTest, SeveralAtOnce) {
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
TEST_F(FileTierTest, AFileThatIsNotRightIsRemovedCountedAndComputed) {
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

TEST_F(FileTierTest, FilesOfAnotherModelAreLeftAlone) {
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

TEST_F(FileTierTest, AFullDiskEndsTheTakingWithOneLine) {
  base::FileCalls full = base::FileCalls::system();
  full.write = [](int fd, const void* bytes, std::size_t n) -> ssize_t {
    static int n_left = 5;
    if (--n_left < 0) {
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

TEST_F(FileTierTest, AFolderThatCannotBeUsedKeepsNothing) {
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

TEST_F(FileTierTest, ARunnerWhoseBlocksCannotBeKeptIsToldOf) {
  FakeRunnerOptions windowed = fake_options();
  windowed.windows = {8};
  EXPECT_FALSE(open(windowed)->takes());
  FakeRunnerOptions closed = fake_options();
  closed.capabilities.attachment_bytes_max = 0;
  EXPECT_FALSE(open(closed)->takes());
  ASSERT_EQ(warnings().size(), 2U);
  EXPECT_NE(warnings()[0].find("attention window"), std::string::npos) << warnings()[0];
  EXPECT_NE(warnings()[1].find("hands out no blocks"), std::string::npos) << warnings()[1];
  EXPECT_FALSE(fs::exists(path_));
}

// Waits for one job of a tier.
template <typename F>
std::uint32_t result_of(const F& begin) {
  base::Mutex mu;
  base::CondVar changed;
  std::optional<std::uint32_t> out;
  begin([&](std::uint32_t n) {
    base::MutexLock lock(mu);
    out = n;
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

TEST_F(FileTierTest, RandomOperationsAgainstANaiveModel) {
  const FakeRunnerOptions fake = fake_options();
  const auto runner = std::make_shared<FakeRunner>(fake);
  const KvLayout layout = kv_layout_of(runner->info());
  NaiveTier naive{.bytes_max = 2000};
  auto tier = open(fake, naive.bytes_max);
  std::uint64_t attachment = 1;
  std::mt19937_64 random(7);
  const auto store = [&](const TierBlock& block, const std::string& bytes) {
    const std::vector<std::string> blocks{bytes};
    EXPECT_TRUE(runner->attach({.id = ++attachment, .bytes = join_image(layout, blocks)}).ok());
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
        const std::string bytes(block_bytes(layout), static_cast<char>('a' + random() % 20));
        ASSERT_EQ(store(block, bytes), is_held ? 0U : 1U);
        if (!is_held) naive.store(block, write_block(layout_hash(layout), block, bytes).size());
        break;
      }
      case 1: {
        const std::vector<BlockKey> keys{block.key};
        ASSERT_EQ(tier->n_known(keys), is_held ? 1U : 0U);
        naive.use(block.key);
        break;
      }
      default:
        ASSERT_EQ(tier->stats().blocks_held, naive.held.size());
        ASSERT_EQ(files().size(), naive.held.size());
        ASSERT_LE(tier->stats().bytes_held, naive.bytes_max);
    }
  }
  EXPECT_GT(naive.held.size(), 3U);
  EXPECT_TRUE(warnings().empty());
}

}  // namespace
}  // namespace coxswain::kvspill
