#include "batch/engine.h"

#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"

namespace coxswain::batch {
namespace {

using testing::expected_output;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::Recorder;
using namespace std::chrono_literals;

GenerationRequest make_request(std::uint64_t id, std::size_t n_prompt, std::uint32_t n_new) {
  GenerationRequest r;
  r.id = RequestId{id};
  for (std::size_t i = 0; i < n_prompt; ++i)
    r.prompt.push_back(static_cast<TokenId>((id * 7 + i) % 50));
  r.stopping.max_new_tokens = n_new;
  return r;
}

EngineOptions test_options() {
  EngineOptions o;
  o.prefill_tokens_max = 16;
  o.check_invariants = true;
  return o;
}

// An engine over a FakeRunner that nobody logs about.
struct Fixture {
  explicit Fixture(const FakeRunnerOptions& fake = {}, EngineOptions options = test_options())
      : runner_options(fake),
        runner(std::make_shared<FakeRunner>(fake)),
        log(quiet()),
        engine(Engine::create(runner, options, log, nullptr)) {}
  ~Fixture() {
    engine.reset();
    EXPECT_TRUE(runner->violations().empty()) << runner->violations().front();
  }
  static telemetry::LogOptions quiet() {
    telemetry::LogOptions o;
    o.level = telemetry::Level::kError;
    o.file_descriptor = 2;
    return o;
  }

  FakeRunnerOptions runner_options;
  std::shared_ptr<FakeRunner> runner;
  telemetry::Logger log;
  std::unique_ptr<Engine> engine;
};

TEST(Engine, AnswersOneRequest) {
  Fixture f;
  const auto request = make_request(1, 9, 12);
  auto sink = std::make_shared<Recorder>();
  ASSERT_TRUE(f.engine->submit(request, sink).ok());
  sink->wait_final();
  sink->expect_complete(expected_output(f.runner_options, request), false);
  const TokenEvent last = sink->final_event();
  EXPECT_LE(last.queued_at, last.scheduled_at);
  EXPECT_LE(last.scheduled_at, last.first_token_at);
  EXPECT_TRUE(f.engine->drain(10s));
  const EngineStats stats = f.engine->stats();
  EXPECT_EQ(stats.finished, 1U);
  EXPECT_EQ(stats.generated_tokens, 12U);
  EXPECT_EQ(stats.blocks_leased + stats.blocks_retiring, 0U);
}

TEST(Engine, ManyThreadsManyRequestsInATinyCache) {
  FakeRunnerOptions o;
  o.n_blocks = {14};
  o.eos_every = 9;
  Fixture f(o);
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kEach = 40;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(t);
      for (std::uint64_t i = 0; i < kEach; ++i) {
        auto request =
            make_request(t * kEach + i, 1 + rng() % 20, 1 + static_cast<std::uint32_t>(rng() % 20));
        request.prompt_logprobs = rng() % 4 == 0;
        request.sampling.do_sample = rng() % 2 == 0;
        request.sampling.seed = rng();
        auto sink = std::make_shared<Recorder>();
        ASSERT_TRUE(f.engine->submit(request, sink).ok());
        if (i % 2 == 0) sink->wait_final();
        if (i % 7 == 3) {
          sink->wait_tokens(1);
          f.engine->cancel(request.id);
        }
        sink->wait_final();
        const auto expected = expected_output(f.runner_options, request);
        if (sink->final_event().status.code() == Code::kCancelled) {
          sink->expect_beginning(expected);
        } else {
          sink->expect_complete(expected, request.prompt_logprobs);
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_TRUE(f.engine->drain(10s));
  const EngineStats stats = f.engine->stats();
  EXPECT_EQ(stats.accepted, kThreads * kEach);
  EXPECT_EQ(stats.accepted, stats.finished + stats.failed + stats.cancelled);
  EXPECT_EQ(stats.failed, 0U);
  EXPECT_EQ(stats.blocks_leased + stats.blocks_retiring, 0U);
}

}  // namespace
}  // namespace coxswain::batch
