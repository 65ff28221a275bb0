// What comes back of KV groups with windows, alone, beside others and with sink tokens. Blocks are of 4 tokens.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "kvspill/testing/spill_tier_test.h"

namespace coxswain::kvspill {
namespace {

using batch::GenerationRequest;
using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using batch::testing::Recorder;
using testing::fake_options;
using testing::Replica;
using testing::request;
using testing::SpillTierTest;

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

}  // namespace
}  // namespace coxswain::kvspill
