// Losses, successors, requests and cancels in any order, drawn by seed.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::GenerationRequest;
using batch::testing::alone;
using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::Recorder;
using batch::testing::RequestRecorder;
using testing::fake;
using testing::request_of;
using testing::runner_that_dies;
using testing::TestFleet;
using namespace std::chrono_literals;

// Kills at random, of replicas that come back; every request gets what it gets alone, once.
void live_through_kills(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  std::uint64_t state = seed * 2654435761U + 1;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  const std::size_t n_replicas = 1 + random(3);
  std::vector<std::shared_ptr<FakeRunner>> runners;
  for (std::size_t i = 0; i < n_replicas; ++i)
    runners.push_back(runner_that_dies(fake(), 1 + random(30)));
  FleetOptions options;
  options.resumes_max = 1000;
  TestFleet fleet(std::move(runners), options);
  struct Open {
    GenerationRequest request;
    std::shared_ptr<RequestRecorder> sinks;
    bool leaves = false;
  };
  std::vector<Open> open;
  for (std::uint64_t id = 1; id <= 24; ++id) {
    GenerationRequest request = request_of(id, 1 + static_cast<std::uint32_t>(random(40)));
    request.priority = static_cast<std::int32_t>(random(2));
    for (std::uint64_t n = random(3); n > 0; --n) request.more_seeds.push_back(random(1000));
    open.push_back(
        {request, std::make_shared<RequestRecorder>(request.n_sequences()), random(5) == 0});
  }
  std::size_t n_sent = 0;
  std::size_t n_spared = 0;
  const auto all_done = [&] {
    return n_sent == open.size() &&
           std::ranges::all_of(open, [](const Open& o) { return o.sinks->done(); });
  };
  while (!all_done()) {
    for (std::size_t i = 0; i < n_replicas; ++i) {
      if (fleet.is_up(i)) continue;
      fleet.replace(i, runner_that_dies(fake(), ++n_spared > 20 ? 0 : 1 + random(30)));
    }
    if (n_sent < open.size()) {
      const Open& o = open[n_sent];
      const Status status = fleet->submit(o.request, o.sinks);
      if (status.ok()) ++n_sent;
      EXPECT_TRUE(status.ok() || status.code() == Code::kUnavailable) << status.message();
    }
    const Open& other = open[random(open.size())];
    if (other.leaves) fleet->cancel(other.request.id);
    std::this_thread::sleep_for(50us);
  }
  for (Open& o : open) {
    for (std::size_t i = 0; i < o.sinks->size(); ++i) {
      const Recorder& one = (*o.sinks)[i];
      const auto expected = expected_output(fake(), alone(o.request, i));
      if (o.leaves && one.final_event().status.code() == Code::kCancelled) {
        one.expect_beginning(expected);
      } else {
        one.expect_complete(expected, false);
      }
    }
  }
  for (std::size_t i = 0; i < n_replicas; ++i)
    if (!fleet.is_up(i)) fleet.replace(i, runner_that_dies(fake(), 0));
  fleet.expect_idle();
}

TEST(Fleet, KillsAtRandomChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) live_through_kills(seed);
}

}  // namespace
}  // namespace coxswain::fleet
