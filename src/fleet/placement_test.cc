// Which replica a request comes to: all have their share, and equal beginnings meet.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::GenerationRequest;
using batch::testing::expected_output;
using batch::testing::FakeRunnerOptions;
using batch::testing::Recorder;
using testing::fake;
using testing::request_of;
using testing::runner_that_dies;
using testing::TestFleet;

TEST(Fleet, RequestsAreSharedOut) {
  TestFleet fleet(
      {runner_that_dies(fake(), 0), runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)});
  for (std::size_t i = 0; i < 3; ++i) fleet.runner(i).hold();
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Recorder>>> open;
  for (std::uint64_t id = 1; id <= 60; ++id) {
    open.emplace_back(request_of(id), std::make_shared<Recorder>());
    ASSERT_TRUE(fleet->submit(open.back().first, open.back().second).ok());
  }
  for (std::size_t i = 0; i < 3; ++i) fleet.runner(i).release();
  for (auto& [request, sink] : open) {
    sink->wait_final();
    sink->expect_complete(expected_output(fake(), request), false);
  }
  fleet.expect_idle();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GE(fleet->engine(i).stats().finished, 4U);
}

TEST(Fleet, EqualBeginningsMeet) {
  FakeRunnerOptions options = fake();
  options.n_blocks = {257};
  TestFleet fleet({runner_that_dies(options, 0), runner_that_dies(options, 0)});
  const auto run = [&](std::uint64_t id, TokenId begin) {
    GenerationRequest request = request_of(id, 3);
    request.prompt.assign(100, begin);
    request.prompt.push_back(static_cast<TokenId>(id % 50));
    const auto sink = std::make_shared<Recorder>();
    EXPECT_TRUE(fleet->submit(request, sink).ok());
    EXPECT_TRUE(sink->wait().ok());
    sink->expect_complete(expected_output(options, request), false);
    return sink->final_event().n_cached_prompt_tokens;
  };
  EXPECT_EQ(run(1, 7), 0U);
  for (std::uint64_t id = 2; id < 10; ++id) EXPECT_GE(run(id, 7), 96U);
}

}  // namespace
}  // namespace coxswain::fleet
