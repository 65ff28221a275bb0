// LatestState over a FakeRunner: the newest state, who is called when, and the end.

#include <atomic>
#include <stdexcept>
#include <thread>

#include <coxswain/executor.h>
#include <coxswain/latest_state.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using testing::expected;
using testing::make_request;

// A consumer that is woken by the callback.
class Waker {
 public:
  void wake() {
    {
      base::MutexLock lock(mu_);
      ++n_;
      thread_ = std::this_thread::get_id();
    }
    changed_.notify_all();
  }
  // Until it has been called more than `n` times; returns how often.
  int wait_above(int n) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return n_ > n; });
    return n_;
  }
  int n() {
    base::MutexLock lock(mu_);
    return n_;
  }
  std::thread::id thread() {
    base::MutexLock lock(mu_);
    return thread_;
  }

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  int n_ GUARDED_BY(mu_) = 0;
  std::thread::id thread_ GUARDED_BY(mu_);
};

// The final state; every state on the way has more tokens than the one before.
AnswerState take_all(LatestState& state, Waker& waker) {
  AnswerState last;
  for (int seen = 0; !last.final;) {
    seen = waker.wait_above(seen);
    while (auto now = state.take()) {
      EXPECT_GE(now->n_tokens, last.n_tokens);
      last = *now;
    }
  }
  return last;
}

std::vector<TokenId> ids(const LatestState& state, const AnswerState& now) {
  const auto tokens = state.tokens(now);
  return {tokens.begin(), tokens.end()};
}

TEST(LatestState, TheConsumerSeesTheWholeAnswer) {
  Waker waker;  // outlives the engine
  const FakeRunnerOptions fake;
  Executor engine(std::make_shared<FakeRunner>(fake));
  const Request request = make_request(5, 30);
  const auto state = std::make_shared<LatestState>([&] { waker.wake(); });
  ASSERT_TRUE(engine.enqueue(request, state).ok());
  const AnswerState last = take_all(*state, waker);
  EXPECT_TRUE(last.status.ok());
  EXPECT_EQ(last.finish, FinishReason::kLength);
  EXPECT_EQ(last.usage.n_generated_tokens, 30U);
  EXPECT_EQ(ids(*state, last), expected(fake, request).tokens);
  const auto logprobs = state->logprobs(last);
  EXPECT_EQ(std::vector<float>(logprobs.begin(), logprobs.end()), expected(fake, request).logprobs);
  EXPECT_FALSE(state->take().has_value());
}

// Who does not look finds one state, the newest; the callback has told it once while nothing was taken before.
TEST(LatestState, ASlowConsumerFindsNoBacklog) {
  const FakeRunnerOptions fake;
  const auto runner = std::make_shared<FakeRunner>(fake);
  Executor engine(runner);
  const Request request = make_request(5, 30);
  const auto state = std::make_shared<LatestState>();
  ASSERT_TRUE(engine.enqueue(request, state).ok());
  engine.shutdown(Shutdown::kDrain);
  const auto now = state->take();
  ASSERT_TRUE(now.has_value());
  EXPECT_TRUE(now->final);
  EXPECT_EQ(ids(*state, *now), expected(fake, request).tokens);
}

TEST(LatestState, NoCallBehindTheFinalStateAndNoneOnTheEnginesThread) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  std::atomic<std::thread::id> engine_thread;
  runner->on_step = [&](std::uint64_t) { engine_thread = std::this_thread::get_id(); };
  for (int round = 0; round < 20; ++round) {
    Waker waker;
    auto state = std::make_shared<LatestState>([&] { waker.wake(); });
    int n_at_the_end = 0;
    {
      Executor engine(runner);
      ASSERT_TRUE(engine.enqueue(make_request(5, 4), state).ok());
      const AnswerState last = take_all(*state, waker);
      EXPECT_TRUE(last.final);
      n_at_the_end = waker.n();
      EXPECT_NE(waker.thread(), std::this_thread::get_id());
      EXPECT_NE(waker.thread(), engine_thread.load());
    }
    EXPECT_EQ(waker.n(), n_at_the_end);
  }
}

TEST(LatestState, WithoutStreamingOneCallAtTheEnd) {
  Waker waker;
  const auto state =
      std::make_shared<LatestState>([&] { waker.wake(); }, LatestState::Wakes::kFinalOnly);
  {
    Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}));
    ASSERT_TRUE(engine.enqueue(make_request(5, 30), state).ok());
    waker.wait_above(0);
    const auto now = state->take();
    ASSERT_TRUE(now.has_value());
    EXPECT_TRUE(now->final);
  }
  EXPECT_EQ(waker.n(), 1);
}

TEST(LatestState, CancelEndsTheRequestAtOnce) {
  Waker waker;  // outlives the engine
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->hold();
  Executor engine(runner);
  const auto state = std::make_shared<LatestState>([&] { waker.wake(); });
  ASSERT_TRUE(engine.enqueue(make_request(5, 30), state).ok());
  runner->wait_for_submitted(1);
  state->cancel();
  state->cancel();
  EXPECT_EQ(take_all(*state, waker).status.code(), Code::kCancelled);
  runner->release();
}

TEST(LatestState, CancelBeforeAndBehindTheEngine) {
  Waker waker;
  const auto early = std::make_shared<LatestState>([&] { waker.wake(); });
  early->cancel();
  auto late = std::make_shared<LatestState>();
  {
    Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}));
    ASSERT_TRUE(engine.enqueue(make_request(5, 100), early).ok());
    EXPECT_EQ(take_all(*early, waker).status.code(), Code::kCancelled);
    ASSERT_TRUE(engine.enqueue(make_request(5, 2), late).ok());
  }
  late->cancel();  // the engine is gone
  EXPECT_TRUE(late->take()->final);
}

TEST(LatestState, ServesOneRequestThatCannotBeAwaited) {
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}));
  const auto state = std::make_shared<LatestState>();
  const auto id = engine.enqueue(make_request(5, 200), state);
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(engine.await(id.value()).status.code(), Code::kNotFound);
  EXPECT_EQ(engine.await_any().status.code(), Code::kNotFound);
  EXPECT_EQ(engine.enqueue(make_request(5, 30), state).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(engine.enqueue(make_request(5, 30), nullptr).status().field(), "state");
}

TEST(LatestState, WhatACallbackThrowsIsDropped) {
  Waker waker;  // outlives the engine
  Executor engine(std::make_shared<FakeRunner>(FakeRunnerOptions{}));
  const auto state = std::make_shared<LatestState>([&] {
    waker.wake();
    throw std::runtime_error("a callback that throws");
  });
  ASSERT_TRUE(engine.enqueue(make_request(5, 8), state).ok());
  EXPECT_TRUE(take_all(*state, waker).status.ok());
}

TEST(LatestState, ALostRunnerIsAFinalState) {
  Waker waker;  // outlives the engine
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->hold();
  Executor engine(runner, {.batch_size_max = 1});
  std::vector<std::shared_ptr<LatestState>> states;
  for (int i = 0; i < 3; ++i) {
    states.push_back(std::make_shared<LatestState>());
    ASSERT_TRUE(engine.enqueue(make_request(5, 8), states.back()).ok());
  }
  runner->wait_for_submitted(1);
  runner->fail_next({Code::kUnavailable, "the machine burns"});
  runner->release();
  engine.shutdown(Shutdown::kDrain);
  for (const auto& state : states) {
    const auto now = state->take();
    ASSERT_TRUE(now.has_value());
    EXPECT_EQ(now->status.code(), Code::kUnavailable);
  }
}

}  // namespace
}  // namespace coxswain::library
