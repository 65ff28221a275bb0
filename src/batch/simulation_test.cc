// Everything at once, by seed (testing/simulation.h). Together the seeds meet all that it knows of.
//
// COXSWAIN_SIMULATION_SEEDS=FIRST-LAST runs other seeds than those of every build (docs/fuzzing.md).

#include "batch/testing/simulation.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace coxswain::batch {
namespace {

using testing::Simulation;

struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t last = 500;
};

Seeds seeds() {
  Seeds out;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  out.last = 100;
#endif
  const char* given = std::getenv("COXSWAIN_SIMULATION_SEEDS");
  if (given == nullptr) return out;
  char* dash = nullptr;
  out.first = std::strtoull(given, &dash, 10);
  EXPECT_EQ(*dash, '-') << "COXSWAIN_SIMULATION_SEEDS is FIRST-LAST";
  if (*dash == '-') out.last = std::strtoull(dash + 1, nullptr, 10);
  EXPECT_LE(out.first, out.last);
  return out;
}

// Everything was met, or the test tests nothing.
void expect_all_met(const Simulation::Met& met, std::uint64_t n_seeds) {
  const auto n_ends = [&](Code code, ErrorKind kind) {
    const auto it = met.ends.find({code, kind});
    return it == met.ends.end() ? 0 : it->second;
  };
  EXPECT_GT(n_ends(Code::kOk, ErrorKind::kNone), 30 * n_seeds);
  EXPECT_GT(n_ends(Code::kCancelled, ErrorKind::kNone), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kDeadlineExceeded, ErrorKind::kDeadline), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kDeadlineExceeded, ErrorKind::kQueueTimeout), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kUnavailable, ErrorKind::kGeneration), n_seeds);
  EXPECT_GT(n_ends(Code::kInternal, ErrorKind::kGeneration), n_seeds);
  EXPECT_GT(met.n_ends_beside_step, 10 * n_seeds);
  EXPECT_GT(met.n_late_steps, 100 * n_seeds);
  EXPECT_GT(met.n_early_tokens, 10 * n_seeds);
  EXPECT_GT(met.n_stop_strings, n_seeds);
  EXPECT_GT(met.n_silent, n_seeds / 4);
  EXPECT_GT(met.n_pauses.at(CapacityPolicy::kMaxUtilization), n_seeds);
  EXPECT_GT(met.n_pauses.at(CapacityPolicy::kAdaptive), n_seeds);
  EXPECT_GT(met.n_replaced, n_seeds);
  EXPECT_GT(met.n_evicted, 10 * n_seeds);
  for (const Code code :
       {Code::kOk, Code::kCancelled, Code::kDeadlineExceeded, Code::kUnavailable, Code::kInternal})
    EXPECT_GT(met.search_ends.at(code), n_seeds / 8) << static_cast<int>(code);
  EXPECT_GT(met.n_search_pauses, n_seeds / 8);  // of few seeds that have many
  EXPECT_GT(met.n_searches_cut, n_seeds / 4);
  EXPECT_GT(met.tier.blocks_offloaded, n_seeds);
  EXPECT_GT(met.tier.blocks_onboarded, n_seeds);
  EXPECT_GT(met.tier.paused_blocks_offloaded, n_seeds / 4);
  EXPECT_GT(met.tier.paused_blocks_onboarded, n_seeds / 4);
}

TEST(Simulation, EveryAnswerIsRightAndInTime) {
  const Seeds range = seeds();
  Simulation::Met met;
  for (std::uint64_t seed = range.first; seed <= range.last; ++seed) {
    const std::string replay = std::to_string(seed) + "-" + std::to_string(seed);
    SCOPED_TRACE("to replay: COXSWAIN_SIMULATION_SEEDS=" + replay + " --gtest_filter=Simulation.*");
    Simulation(seed, met).run();
    if (::testing::Test::HasFailure()) return;
  }
  std::uint64_t n_searches = 0;
  for (const auto& [code, n] : met.search_ends) n_searches += n;
  std::printf(
      "seeds %llu to %llu: %llu requests, %llu of them beam searches (%llu pauses), %llu deadlines "
      "answered "
      "beside a step\n",
      static_cast<unsigned long long>(range.first),
      static_cast<unsigned long long>(range.last),
      static_cast<unsigned long long>(met.n_requests),
      static_cast<unsigned long long>(n_searches),
      static_cast<unsigned long long>(met.n_search_pauses),
      static_cast<unsigned long long>(met.n_ends_beside_step));
  std::printf(
      "tier: %llu blocks kept, %llu of paused sequences; %llu brought back, %llu for these\n",
      static_cast<unsigned long long>(met.tier.blocks_offloaded),
      static_cast<unsigned long long>(met.tier.paused_blocks_offloaded),
      static_cast<unsigned long long>(met.tier.blocks_onboarded),
      static_cast<unsigned long long>(met.tier.paused_blocks_onboarded));
  const std::uint64_t n_seeds = range.last - range.first + 1;
  if (n_seeds >= 50) expect_all_met(met, n_seeds);
}

// Prompts first, drafts, and a search that is paused for a decode and let in again before it.
TEST(Simulation, WhatIsPausedForADecodeDoesNotComeBackBeforeIt) {
  Simulation::Met met;
  Simulation(8383, met).run();
}

}  // namespace
}  // namespace coxswain::batch
