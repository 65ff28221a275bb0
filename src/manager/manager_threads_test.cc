// A BatchManager that many threads use at once.

#include <chrono>
#include <thread>

#include <coxswain/batch_manager.h>

#include "batch/testing/fake_runner.h"
#include "manager/testing/managed.h"
#include "manager/testing/program.h"

namespace coxswain::manager {
namespace {

using batch::testing::expected_output;
using testing::Given;
using testing::joined;
using testing::make_request;
using testing::Managed;
using testing::plain_request;
using testing::Reply;

// Submits the request of an id and compares what comes with what an engine yields for it alone.
void submit_and_compare(Managed& run, std::uint64_t id) {
  const bool streams = id % 2 == 0;
  const auto n_new = static_cast<std::int32_t>(1 + id % 23);
  const auto top_k = static_cast<std::int32_t>(id % 3);
  const std::vector<TokenId> prompt(1 + id % 17, static_cast<TokenId>(id % 5));
  auto request = make_request(id, prompt, n_new, streams);
  request->set(NamedTensor::of<std::uint64_t>("random_seed", {1}, {id}));
  request->set(NamedTensor::of<std::int32_t>("runtime_top_k", {1}, {top_k}));
  run.program.submit(request);
  run.manager->notify();
  batch::GenerationRequest same = plain_request(prompt, static_cast<std::uint32_t>(n_new));
  same.sampling.seed = id;
  same.sampling.do_sample = top_k != 0;
  const std::vector<TokenId> output = expected_output(run.fake, same).tokens;
  EXPECT_EQ(run.program.wait(id).ids(), streams ? output : joined(prompt, output));
}

TEST(BatchManager, SixteenThreadsGetWhatAnEngineGivesThem) {
  constexpr std::uint64_t kThreads = 16;
  constexpr std::uint64_t kEach = 8;
  Given setup;
  for (const auto policy : {CapacityPolicy::kGuaranteedNoEvict,
                            CapacityPolicy::kMaxUtilization,
                            CapacityPolicy::kStaticBatch}) {
    setup.policy = policy;
    Managed run(setup);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&run, t] {
        for (std::uint64_t i = 0; i < kEach; ++i) submit_and_compare(run, t * kEach + i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// One of many clients: it waits for half of its requests, stops some, and looks at what there is to see.
void be_client(Managed& run, std::uint64_t client) {
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::uint64_t id = client * 100 + i;
    auto request = make_request(id, {TokenId(client), 2, 3}, 5 + std::int32_t(i) * 5, i % 2 == 0);
    if (i % 4 == 1) request->set(NamedTensor::of<std::int32_t>("num_return_sequences", {1}, {2}));
    run.program.submit(request);
    run.manager->notify();
    if (i % 3 == 2) run.program.stop(id);
    EXPECT_EQ(run.manager->callback_failures().count, 0U);
    EXPECT_NE(run.manager->gauges(), "");
    if (i % 2 != 0) continue;
    EXPECT_EQ(run.program.wait(id).error(), "");
  }
}

TEST(BatchManager, SixteenClientsAndADrainOnTheWay) {
  Given setup;
  setup.fake.n_blocks = {41};
  setup.policy = CapacityPolicy::kMaxUtilization;
  setup.options.idle_poll = std::chrono::microseconds(100);
  Managed run(setup);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 16; ++t) threads.emplace_back([&run, t] { be_client(run, t); });
  for (std::thread& thread : threads) thread.join();
  run.manager.reset();  // what was taken is answered
  EXPECT_EQ(run.program.n_open(), 0);
  for (std::uint64_t t = 0; t < 16; ++t) {
    for (std::uint64_t i = 0; i < 12; ++i) {
      const Reply reply = run.program.reply(t * 100 + i);
      EXPECT_EQ(reply.n_final, reply.responses.empty() ? 0 : 1);
      EXPECT_EQ(reply.error(), "");
    }
  }
}

}  // namespace
}  // namespace coxswain::manager
