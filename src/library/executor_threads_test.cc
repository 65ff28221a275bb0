// An Executor that many threads use at once.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/latest_state.h>
#include <gtest/gtest.h>

#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using testing::await_whole;
using testing::expected;
using testing::ids_of;
using testing::make_request;
using namespace std::chrono_literals;

TEST(ExecutorThreads, OneResponseGoesToOneOfThoseThatWait) {
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  runner->hold();
  Executor engine(runner);
  const auto id = engine.enqueue(make_request(3, 8));
  ASSERT_TRUE(id.ok());
  std::atomic<std::size_t> n_tokens = 0;
  std::atomic<int> n_final = 0;
  std::vector<std::thread> threads;
  threads.reserve(16);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (true) {
        const Response piece = engine.await(id.value());
        n_tokens += piece.tokens.size();
        if (piece.final && piece.status.ok()) ++n_final;
        if (piece.final) return;
      }
    });
  }
  runner->release();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(n_tokens, 8U);
  EXPECT_EQ(n_final, 1);
}

// One of many clients: every third of its requests is cancelled, which may come too late.
void be_client(Executor& engine, const FakeRunnerOptions& fake, TokenId client) {
  for (int i = 0; i < 12; ++i) {
    Request request = make_request(2 + (client + i) % 9, 1 + static_cast<std::uint32_t>(i), client);
    request.priority = client % 3;
    const auto id = engine.enqueue(request);
    ASSERT_TRUE(id.ok()) << id.status().message();
    if (i % 3 == 2) engine.cancel(id.value());
    const Response answer = await_whole(engine, id.value());
    const bool cancelled = answer.status.code() == Code::kCancelled;
    EXPECT_TRUE(answer.status.ok() || (cancelled && i % 3 == 2)) << answer.status.message();
    if (cancelled) continue;
    EXPECT_EQ(ids_of(answer.tokens), expected(fake, request).tokens);
  }
}

TEST(ExecutorThreads, SixteenThreadsGetWhatTheyAskedFor) {
  const FakeRunnerOptions fake;
  const auto runner = std::make_shared<FakeRunner>(fake);
  Executor engine(runner);
  std::vector<std::thread> threads;
  threads.reserve(16);
  for (TokenId t = 0; t < 16; ++t) threads.emplace_back([&, t] { be_client(engine, fake, t); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(engine.n_ready(), 0U);
  EXPECT_TRUE(runner->violations().empty());
}

// Clients of every kind, until the executor takes no more requests.
class Crowd {
 public:
  Crowd(Executor& engine, const FakeRunnerOptions& fake) : engine_(engine), fake_(fake) {}

  void be_client(TokenId client) {
    for (std::uint32_t i = 0;; ++i) {
      Request request = make_request(2 + static_cast<int>(i) % 9, 1 + i % 40, client);
      request.n = client % 4 == 1 ? 3 : 1;
      request.best_of = client % 4 == 2 ? 3 : 0;
      const auto state = std::make_shared<LatestState>();
      const bool apart = client % 4 == 3;
      const auto id = apart ? engine_.enqueue(request, state) : engine_.enqueue(request);
      if (!id.ok()) {
        EXPECT_EQ(id.status().code(), Code::kUnavailable) << id.status().message();
        return;
      }
      if (i % 5 == 4) engine_.cancel(id.value());
      if (apart) {
        follow(*state);
      } else {
        collect(id.value(), request);
      }
      look_around();
      ++n_answered_;
    }
  }
  std::size_t n_answered() const { return n_answered_; }

 private:
  void collect(RequestId id, const Request& request) {
    std::vector<int> n_ends(request.n);
    std::vector<TokenId> tokens;  // of the first
    Response piece;
    while (!piece.final) {
      piece = engine_.await(id, 1ms);
      if (piece.sequence == 0)
        for (const OutputToken& token : piece.tokens) tokens.push_back(token.id);
      n_ends[piece.sequence] += piece.ends_sequence() ? 1 : 0;
      EXPECT_TRUE(piece.status.ok() || piece.status.code() == Code::kCancelled);
      if (piece.sequence == 0 && piece.finish && request.best_of == 0) {
        EXPECT_EQ(tokens, expected(fake_, request).tokens);
      }
    }
    EXPECT_EQ(n_ends, std::vector<int>(request.n, 1));
  }
  void follow(LatestState& state) {
    for (bool final = false; !final; std::this_thread::yield()) {
      const auto now = state.take();
      final = now && now->final;
    }
  }
  void look_around() {
    engine_.iteration_stats();
    engine_.request_stats();
    engine_.kv_events();
    EXPECT_LE(engine_.n_ready(), 64U);
  }

  Executor& engine_;
  const FakeRunnerOptions fake_;
  std::atomic<std::size_t> n_answered_ = 0;
};

TEST(ExecutorThreads, SixteenClientsAndAShutdownOnTheWay) {
  for (const Shutdown how : {Shutdown::kDrain, Shutdown::kCancel}) {
    FakeRunnerOptions fake;
    fake.n_blocks = {41};  // so that some wait and some are paused
    const auto runner = std::make_shared<FakeRunner>(fake);
    Executor engine(runner,
                    {.policy = CapacityPolicy::kMaxUtilization,
                     .iteration_stats_max = 10,
                     .request_stats_max = 10,
                     .kv_events_max = 10});
    Crowd crowd(engine, fake);
    std::vector<std::thread> threads;
    threads.reserve(16);
    for (TokenId t = 0; t < 16; ++t) threads.emplace_back([&crowd, t] { crowd.be_client(t); });
    while (crowd.n_answered() < 100) std::this_thread::yield();
    std::thread other([&] { engine.shutdown(how); });
    engine.shutdown(how);
    other.join();
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(engine.n_ready(), 0U);
    EXPECT_TRUE(runner->violations().empty());
  }
}

}  // namespace
}  // namespace coxswain::library
