#include "batch/engine.h"

#include <algorithm>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "batch/testing/recording_observer.h"

namespace coxswain::batch {
namespace {

using testing::expected_output;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::Recorder;
using testing::RecordingObserver;
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

// Lets the runner compute only as many steps as a test has asked for.
class Gate {
 public:
  void hold() {
    base::MutexLock lock(mu_);
    open_ = false;
  }
  void release() {
    {
      base::MutexLock lock(mu_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void pass() {
    base::MutexLock lock(mu_);
    ++n_waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&]() REQUIRES(mu_) { return open_; });
    --n_waiting_;
  }
  void wait_until_somebody_waits() {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return n_waiting_ > 0; });
  }

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  bool open_ GUARDED_BY(mu_) = true;
  int n_waiting_ GUARDED_BY(mu_) = 0;
};

// An engine over a FakeRunner.
struct Fixture {
  explicit Fixture(const FakeRunnerOptions& fake = {},
                   const EngineOptions& options = test_options(),
                   EngineObserver* observer = nullptr)
      : runner_options(fake), runner(std::make_shared<FakeRunner>(fake)) {
    runner->on_step = [this](std::uint64_t) { gate.pass(); };
    engine = Engine::create(runner, options, observer);
  }
  ~Fixture() {
    gate.release();
    engine.reset();
    EXPECT_TRUE(runner->violations().empty()) << runner->violations().front();
  }
  std::shared_ptr<Recorder> submit(const GenerationRequest& request) {
    auto sink = std::make_shared<Recorder>();
    const Status status = engine->submit(request, sink);
    EXPECT_TRUE(status.ok()) << status.message();
    return sink;
  }

  FakeRunnerOptions runner_options;
  Gate gate;
  std::shared_ptr<FakeRunner> runner;
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

// All of the request's output, or its beginning if it was cancelled.
void expect_end(Recorder& sink, const Fixture& f, const GenerationRequest& request) {
  const auto expected = expected_output(f.runner_options, request);
  if (sink.final_event().status.code() == Code::kCancelled) {
    sink.expect_beginning(expected);
  } else {
    sink.expect_complete(expected, request.prompt_logprobs);
  }
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
        const bool cancels = i % 7 == 3;
        if (cancels) sink->wait_tokens(1);
        if (cancels) f.engine->cancel(request.id);
        sink->wait_final();
        expect_end(*sink, f, request);
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

TEST(Engine, RefusesWhatDoesNotFitTheQueueAndSaysSo) {
  EngineOptions o = test_options();
  o.batch_size_max = 1;
  o.queue_requests_max = 2;
  Fixture f({}, o);
  f.gate.hold();
  auto running = f.submit(make_request(1, 5, 5));
  f.gate.wait_until_somebody_waits();
  auto first = f.submit(make_request(2, 5, 5));
  auto second = f.submit(make_request(3, 5, 5));
  const Status full = f.engine->submit(make_request(4, 5, 5), std::make_shared<Recorder>());
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_EQ(full.kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(full.message(), "`queue_requests_max` is 2: as many requests are waiting already");
  EXPECT_EQ(f.engine->stats().accepted, 3U);
  f.gate.release();
  for (const auto& sink : {running, first, second}) sink->wait_final();
  f.submit(make_request(4, 5, 5))->wait_final();
}

TEST(Engine, WhatWaitsIsBoundedInTokensToo) {
  EngineOptions o = test_options();
  o.batch_size_max = 1;
  o.queue_tokens_max = 12;
  Fixture f({}, o);
  f.gate.hold();
  auto running = f.submit(make_request(1, 12, 5));
  f.gate.wait_until_somebody_waits();
  auto first = f.submit(make_request(2, 5, 5));
  GenerationRequest wordy = make_request(3, 5, 5);
  wordy.stopping.stop_sequences = {"12", "345"};  // 5 bytes: 2 tokens more
  auto second = f.submit(wordy);
  const Status full = f.engine->submit(make_request(4, 1, 5), std::make_shared<Recorder>());
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_EQ(full.kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(full.message(),
            "`queue_tokens_max` is 12: 12 tokens are waiting already, the request has 1");
  EXPECT_EQ(f.engine->stats().queued_tokens, 12U);
  const Status never = f.engine->submit(make_request(5, 13, 5), std::make_shared<Recorder>());
  EXPECT_EQ(never.kind(), ErrorKind::kValidation);
  EXPECT_EQ(never.field(), kPromptField);
  EXPECT_EQ(never.message(), "the request would wait with 13 tokens, `queue_tokens_max` is 12");
  f.gate.release();
  for (const auto& sink : {running, first, second}) sink->wait_final();
  EXPECT_EQ(f.engine->stats().queued_tokens, 0U);
  f.submit(make_request(4, 12, 5))->wait_final();
}

TEST(Engine, WhatIsAskedForBesideTokensIsBoundedInBytes) {
  Fixture f([] {
    FakeRunnerOptions runner;
    runner.capabilities.output_bytes_max = 2000;  // 10 rows of 50 logits
    return runner;
  }());
  f.gate.hold();
  GenerationRequest wants = make_request(1, 3, 5);
  wants.outputs.generation_logits = true;  // 5 rows
  auto first = f.submit(wants);
  wants.id = RequestId{2};
  auto second = f.submit(wants);
  wants.id = RequestId{3};
  const Status full = f.engine->submit(wants, std::make_shared<Recorder>());
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "`output_bytes_max` is 2000: requests have asked for logits and hidden states of 2000 "
            "bytes already, this one for 1000");
  auto plain = f.submit(make_request(4, 3, 5));
  f.gate.release();
  for (const auto& sink : {first, second, plain}) sink->wait_final();
  f.submit(wants)->wait_final();
}

TEST(Engine, AnIdIsFreeAgainInItsFinalEvent) {
  Fixture f;
  f.gate.hold();
  const auto request = make_request(1, 5, 3);
  auto sink = std::make_shared<Recorder>();
  auto again = std::make_shared<Recorder>();
  Status resubmitted = internal_error("not called");
  sink->on_each = [&] {
    if (sink->done()) resubmitted = f.engine->submit(request, again);
  };
  ASSERT_TRUE(f.engine->submit(request, sink).ok());
  EXPECT_EQ(f.engine->submit(request, again).code(), Code::kFailedPrecondition);
  f.gate.release();
  again->wait_final();
  EXPECT_TRUE(resubmitted.ok()) << resubmitted.message();
  again->expect_complete(expected_output(f.runner_options, request), false);
}

TEST(Engine, CancelsInEveryState) {
  EngineOptions o = test_options();
  o.batch_size_max = 1;
  Fixture f({}, o);
  f.gate.hold();
  auto running = f.submit(make_request(1, 5, 20));
  f.gate.wait_until_somebody_waits();
  auto waiting = f.submit(make_request(2, 5, 20));
  f.engine->cancel(RequestId{2});
  f.engine->cancel(RequestId{1});
  f.engine->cancel(RequestId{1});   // idempotent
  f.engine->cancel(RequestId{99});  // unknown
  f.gate.release();
  for (const auto& sink : {running, waiting}) {
    sink->wait_final();
    EXPECT_EQ(sink->final_event().status.code(), Code::kCancelled);
  }
  EXPECT_TRUE(waiting->tokens().empty());
  EXPECT_TRUE(f.engine->drain(10s));
  EXPECT_EQ(f.engine->stats().cancelled, 2U);
}

// The cancel comes in the pass that ends the request: nobody is left to cancel.
TEST(Engine, ALateCancelDoesNotMeetALaterRequestOfItsId) {
  const auto request = make_request(1, 5, 3);
  auto sink = std::make_shared<Recorder>();
  auto again = std::make_shared<Recorder>();
  Status resubmitted = internal_error("not called");
  Fixture f;  // its engine may call what follows until it is gone
  f.runner->on_step = [&](std::uint64_t) {
    if (sink->tokens().size() == 2 && !sink->done()) f.engine->cancel(request.id);
  };
  sink->on_each = [&] {
    if (sink->done()) resubmitted = f.engine->submit(request, again);
  };
  ASSERT_TRUE(f.engine->submit(request, sink).ok());
  EXPECT_TRUE(sink->wait().ok());
  EXPECT_TRUE(again->wait().ok());
  EXPECT_TRUE(resubmitted.ok()) << resubmitted.message();
}

// A step that hangs until it is released.
struct HungStep : Fixture {
  explicit HungStep(const EngineOptions& options = test_options()) : Fixture({}, options) {
    runner->hold();
  }
  ~HungStep() { runner->release(); }
  HungStep(const HungStep&) = delete;
  HungStep& operator=(const HungStep&) = delete;

  std::shared_ptr<Recorder> submit_and_hang(const GenerationRequest& request) {
    auto sink = submit(request);
    runner->wait_for_submitted(1);
    return sink;
  }
};

EngineOptions one_at_a_time() {
  EngineOptions o = test_options();
  o.batch_size_max = 1;
  return o;
}

TEST(HungStep, ADeadlineIsAnsweredAndBlocksRetireBehindIt) {
  HungStep f;
  auto request = make_request(1, 5, 20);
  request.deadline = Clock::now() + 30ms;
  auto sink = f.submit_and_hang(request);
  const auto other_request = make_request(2, 5, 20);
  auto other = f.submit(other_request);
  EXPECT_EQ(sink->wait().kind(), ErrorKind::kDeadline);
  EXPECT_GE(Clock::now(), *request.deadline);
  EXPECT_FALSE(other->done());
  f.runner->release();
  other->wait_final();
  other->expect_complete(expected_output(f.runner_options, other_request), false);
  EXPECT_TRUE(f.engine->drain(10s));
  EXPECT_EQ(f.engine->stats().blocks_leased, 0U);
}

TEST(HungStep, ACancelIsAnswered) {
  HungStep f;
  auto sink = f.submit_and_hang(make_request(1, 5, 20));
  f.engine->cancel(RequestId{1});
  EXPECT_EQ(sink->wait().code(), Code::kCancelled);
  auto again = f.submit(make_request(1, 5, 20));  // the id is free
  f.engine->cancel(RequestId{1});
  EXPECT_EQ(again->wait().code(), Code::kCancelled);
}

// One that waits already, and one that comes while the step hangs.
TEST(HungStep, RequestsThatWaitTooLongAreAnswered) {
  HungStep f(one_at_a_time());
  auto running = f.submit_and_hang(make_request(1, 5, 20));
  auto request = make_request(2, 5, 20);
  request.queue_deadline = Clock::now() + 60ms;
  auto first = f.submit(request);
  request.id = RequestId{3};
  request.queue_deadline = Clock::now() + 20ms;
  auto second = f.submit(request);
  EXPECT_EQ(second->wait().kind(), ErrorKind::kQueueTimeout);
  EXPECT_EQ(first->wait().kind(), ErrorKind::kQueueTimeout);
  EXPECT_FALSE(running->done());
}

TEST(HungStep, AClientThatDoesNotReadIsCancelled) {
  EngineOptions o = test_options();
  o.stall_timeout = 20ms;
  HungStep f(o);
  auto sink = f.submit_and_hang(make_request(1, 5, 20));
  sink->set_stalled(true);
  EXPECT_EQ(sink->wait().code(), Code::kCancelled);
}

TEST(HungStep, DestructionAnswersBeforeTheStepEnds) {
  HungStep f;
  auto sink = f.submit_and_hang(make_request(1, 5, 20));
  std::thread stops([&] { f.engine.reset(); });
  EXPECT_EQ(sink->wait().code(), Code::kCancelled);
  f.runner->release();
  stops.join();
}

TEST(HungStep, TheStrictOrderAnswersWhatIsInNoStep) {
  EngineOptions o = one_at_a_time();
  o.final_after_retire = true;
  HungStep f(o);
  auto running = f.submit_and_hang(make_request(1, 5, 20));
  auto waiting = f.submit(make_request(2, 5, 20));
  f.engine->cancel(RequestId{1});
  f.engine->cancel(RequestId{2});
  EXPECT_EQ(waiting->wait().code(), Code::kCancelled);
  EXPECT_FALSE(running->done());
  f.runner->release();
  EXPECT_EQ(running->wait().code(), Code::kCancelled);
}

TEST(Engine, DrainRefusesNewRequestsAndWaitsForTheOthers) {
  Fixture f;
  f.gate.hold();
  auto sink = f.submit(make_request(1, 5, 5));
  EXPECT_FALSE(f.engine->drain(0ms));
  const Status refused = f.engine->submit(make_request(2, 5, 5), std::make_shared<Recorder>());
  EXPECT_EQ(refused.kind(), ErrorKind::kUnavailable);
  f.gate.release();
  EXPECT_TRUE(f.engine->drain(10s));
  EXPECT_TRUE(sink->done() && sink->final_event().status.ok());
}

TEST(Engine, DestructionAnswersEveryRequest) {
  std::vector<std::shared_ptr<Recorder>> sinks;
  {
    EngineOptions o = test_options();
    o.batch_size_max = 2;
    Fixture f({}, o);
    f.gate.hold();
    for (std::uint64_t id = 0; id < 6; ++id) sinks.push_back(f.submit(make_request(id, 5, 50)));
  }
  for (const auto& sink : sinks) ASSERT_TRUE(sink->done());
  EXPECT_EQ(sinks.back()->final_event().status.code(), Code::kCancelled);
}

TEST(Engine, ALostRunnerFailsWhatRunsAndANewOneServesTheRest) {
  EngineOptions o = test_options();
  o.batch_size_max = 1;
  Fixture f({}, o);
  f.runner->step_failure = [](std::uint64_t) { return Status(Code::kUnavailable, "killed"); };
  f.gate.hold();
  auto running = f.submit(make_request(1, 5, 20));
  const auto request = make_request(2, 5, 20);
  auto waiting = f.submit(request);
  auto impatient_request = make_request(3, 5, 20);
  impatient_request.queue_deadline = Clock::now() + 20ms;
  auto impatient = f.submit(impatient_request);
  EXPECT_TRUE(f.engine->healthy().ok());
  f.gate.release();
  running->wait_final();
  EXPECT_EQ(running->final_event().status.kind(), ErrorKind::kGeneration);
  impatient->wait_final();
  EXPECT_EQ(impatient->final_event().status.kind(), ErrorKind::kQueueTimeout);
  EXPECT_EQ(f.engine->healthy().kind(), ErrorKind::kHealthcheck);
  EXPECT_EQ(f.engine->submit(make_request(4, 5, 5), std::make_shared<Recorder>()).kind(),
            ErrorKind::kUnavailable);

  FakeRunnerOptions fresh = f.runner_options;
  fresh.epoch = 77;
  auto second = std::make_shared<FakeRunner>(fresh);
  f.engine->replace_runner(second);
  EXPECT_TRUE(f.engine->healthy().ok());
  f.submit(make_request(4, 5, 5))->wait_final();
  waiting->wait_final();
  waiting->expect_complete(expected_output(fresh, request), false);
  f.engine.reset();
  EXPECT_TRUE(second->violations().empty());
}

// Who connects again on every loss would otherwise see one in each replacement, and never end.
TEST(Engine, AReplacedRunnerIsNotMissed) {
  struct Watcher final : EngineObserver {
    void on_runner_lost(const Status& why) override {
      lost = why.message();
      up = engine->stats().runner_up;
    }
    Engine* engine = nullptr;
    std::string lost;
    bool up = false;
  } watcher;
  Fixture f({}, test_options(), &watcher);
  watcher.engine = f.engine.get();
  f.submit(make_request(1, 5, 5))->wait_final();
  FakeRunnerOptions fresh = f.runner_options;
  fresh.epoch = 77;
  f.engine->replace_runner(std::make_shared<FakeRunner>(fresh));
  f.submit(make_request(2, 5, 5))->wait_final();
  EXPECT_TRUE(f.engine->drain(10s));
  f.engine.reset();
  EXPECT_EQ(watcher.lost, "the runner was replaced");
  EXPECT_TRUE(watcher.up);
}

TEST(Engine, TheObserverIsToldOfTokensBeyondOneARow) {
  RecordingObserver seen;
  FakeRunnerOptions fake;
  fake.capabilities.draft_tokens_max = 3;
  Fixture f(fake, test_options(), &seen);
  const auto sink = f.submit(make_request(1, 5, 40));
  sink->wait_final();
  f.engine.reset();
  // One each of the prompt's step and of every row that decoded.
  const std::uint32_t n_accepted = seen.drafts.accepted;
  EXPECT_GT(n_accepted, 10U);
  EXPECT_GT(seen.drafts.computed, n_accepted);
  EXPECT_EQ(sink->final_event().drafts, seen.drafts);
  EXPECT_EQ(sink->tokens().size(), 40U);
  EXPECT_GE(n_accepted + seen.finished.size(), 40U);
  EXPECT_LE(n_accepted + seen.finished.size(), 41U);  // a surplus row
}

TEST(Engine, OnlyAGrammarGivesRoomForSeveralTokens) {
  for (const bool has_grammar : {false, true}) {
    RecordingObserver seen;
    Fixture f({}, test_options(), &seen);
    auto request = make_request(1, 5, 40);
    if (has_grammar) request.sampling.grammar.bytes = std::make_shared<const std::string>("any");
    const auto sink = f.submit(request);
    sink->wait_final();
    f.engine.reset();
    EXPECT_EQ(sink->tokens().size(), 40U);
    EXPECT_EQ(seen.drafts.accepted > 10, has_grammar);
    EXPECT_EQ(seen.finished.size() < 30, has_grammar);
  }
}

TEST(Engine, ARequestEndsAtItsDeadline) {
  Fixture f;
  auto request = make_request(1, 5, 200);
  request.deadline = Clock::now() + 15ms;
  auto sink = std::make_shared<Recorder>();
  sink->set_stalled(true);  // so that it cannot finish before
  ASSERT_TRUE(f.engine->submit(request, sink).ok());
  sink->wait_final();
  EXPECT_EQ(sink->final_event().status.kind(), ErrorKind::kDeadline);
  EXPECT_GE(Clock::now(), *request.deadline);
}

TEST(Engine, TheObserverIsToldWhatTheStatisticsSay) {
  RecordingObserver seen;
  Fixture f({}, test_options(), &seen);
  const auto request = make_request(1, 17, 6);
  f.submit(request)->wait_final();
  auto same = request;
  same.id = RequestId{2};
  f.submit(same)->wait_final();
  EXPECT_TRUE(f.engine->drain(10s));
  const EngineStats s = f.engine->stats();
  f.engine.reset();
  EXPECT_EQ(s.cached_prompt_tokens, 16U);
  ASSERT_EQ(seen.admitted.size(), 2U);
  EXPECT_EQ(seen.n_admissions, 2U);
  EXPECT_EQ(seen.admitted[1].request, RequestId{2});
  EXPECT_EQ(seen.admitted[0].n_prompt_tokens + seen.admitted[1].n_prompt_tokens, 34U);
  EXPECT_EQ(seen.admitted[0].n_cached_tokens, 0U);
  EXPECT_EQ(seen.admitted[1].n_cached_tokens, 16U);

  ASSERT_FALSE(seen.states.empty());
  const EngineState& last = seen.states.back();
  EXPECT_EQ(last.batch_sequences + last.stats.queued + last.stats.running, 0U);
  EXPECT_EQ(last.batch_tokens_max, 0U);
  EXPECT_EQ(last.stats.blocks_total, s.blocks_total);
  EXPECT_EQ(last.cache_tokens_total, std::uint64_t{s.blocks_total} * f.runner_options.block_tokens);
  EXPECT_EQ(last.stats.blocks_free + last.stats.blocks_cached, s.blocks_total);
  std::uint64_t tokens_max = 0;
  for (const EngineState& state : seen.states)
    tokens_max = std::max(tokens_max, state.batch_tokens_max);
  EXPECT_EQ(tokens_max, 17U + 6U - 1U);

  EXPECT_GE(seen.n_prefills + seen.n_decodes, 12U);
  EXPECT_GE(seen.n_prefills, 2U);
  EXPECT_GE(seen.finished.size(), 12U);
  EXPECT_LE(seen.finished.size(), seen.n_prefills + seen.n_decodes);
  EXPECT_EQ(seen.finished.front().kind, StepKind::kPrefill);
  EXPECT_EQ(seen.finished.front().n_rows, 1U);
  EXPECT_TRUE(seen.failed.empty());
  EXPECT_EQ(seen.life, "up ");
}

}  // namespace
}  // namespace coxswain::batch
