#pragma once
// SpillTierTest: tiers over a folder of the test's own, which is empty before and gone behind it, and what they have
// warned of. Replica: an engine with such a tier over a fake runner, the outputs of which are those without one. With
// them the runner whose blocks these are, and conversations that it can hold.
//
// Thread rule: one thread, the test's; a tier warns from any.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/mutex.h"
#include "batch/engine.h"
#include "batch/engine_observer.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "kvspill/spill_tier.h"

namespace coxswain::kvspill::testing {

inline batch::testing::FakeRunnerOptions fake_options(std::uint32_t n_blocks = 65) {
  batch::testing::FakeRunnerOptions out;
  out.n_blocks = {n_blocks};
  out.capabilities.attachments = true;
  out.capabilities.attachment_bytes_max = 20 << 10;  // pieces of a few blocks
  return out;
}

// A conversation of its own for each family.
inline batch::GenerationRequest request(std::uint64_t id,
                                        std::uint64_t family,
                                        std::size_t n_prompt = 60,
                                        std::uint32_t n_new = 9) {
  batch::GenerationRequest out;
  out.id = RequestId{id};
  for (std::size_t i = 0; i < n_prompt; ++i)
    out.prompt.push_back(static_cast<TokenId>((i * 7 + family * (i % 5 + 1)) % 50));
  out.stopping.max_new_tokens = n_new;
  return out;
}

class SpillTierTest : public ::testing::Test {
 protected:
  SpillTierTest() { std::filesystem::remove_all(path_); }
  ~SpillTierTest() override { std::filesystem::remove_all(path_); }

  std::shared_ptr<SpillTier> open(const batch::testing::FakeRunnerOptions& fake = fake_options(),
                                  std::uint64_t bytes_max = 1 << 20,
                                  const base::FileCalls& calls = base::FileCalls::system()) {
    return open({.path = path_, .file_bytes_max = bytes_max, .calls = &calls}, fake);
  }
  std::shared_ptr<SpillTier> open(SpillOptions options,
                                  const batch::testing::FakeRunnerOptions& fake = fake_options()) {
    options.warn = [this](std::string_view line) {
      base::MutexLock lock(mu_);
      warnings_.emplace_back(line);
    };
    return std::make_shared<SpillTier>(std::move(options), batch::testing::FakeRunner(fake).info());
  }
  std::vector<std::string> warnings() const {
    base::MutexLock lock(mu_);
    return warnings_;
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> out;
    for (const auto& file : std::filesystem::recursive_directory_iterator(path_)) {
      if (file.path().extension() == ".kvblock") out.push_back(file.path());
    }
    std::ranges::sort(out);
    return out;
  }

  const std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) / ("spill_tier_" + std::to_string(::getpid()));
  mutable base::Mutex mu_;
  std::vector<std::string> warnings_ GUARDED_BY(mu_);
};

// An engine with its runner, the rules of which were kept in the end.
struct Replica {
  Replica(const batch::testing::FakeRunnerOptions& options,
          std::shared_ptr<SpillTier> tier,
          std::uint32_t priority_min = 0,
          batch::EngineObserver* observer = nullptr)
      : fake(options), runner(std::make_shared<batch::testing::FakeRunner>(options)) {
    engine = batch::Engine::create(
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
  std::uint32_t run(const batch::GenerationRequest& r) const {
    const auto sink = std::make_shared<batch::testing::Recorder>();
    EXPECT_TRUE(engine->submit(r, sink).ok());
    EXPECT_TRUE(sink->wait().ok()) << sink->wait().message();
    sink->expect_complete(batch::testing::expected_output(fake, r), false);
    return sink->final_event().n_cached_prompt_tokens;
  }

  batch::testing::FakeRunnerOptions fake;
  std::shared_ptr<batch::testing::FakeRunner> runner;
  std::unique_ptr<batch::Engine> engine;
};

}  // namespace coxswain::kvspill::testing
