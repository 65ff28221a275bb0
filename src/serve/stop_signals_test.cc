#include "serve/stop_signals.h"

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using std::chrono::milliseconds;

void send(int signal) {
  kill(getpid(), signal);
}

template <typename Predicate>
bool soon(Predicate predicate) {
  const TimePoint deadline = Clock::now() + milliseconds(10'000);
  while (!predicate()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST(StopSignals, AnySignalIsARequestToStop) {
  for (const int signal : {SIGTERM, SIGINT}) {
    std::string reason;
    StopSignals signals({.grace = {}, .on_stop = [&](std::string_view r) { reason = r; }});
    signals.serve();
    EXPECT_EQ(signals.n_requests(), 0);
    send(signal);
    signals.wait({});
    EXPECT_EQ(signals.n_requests(), 1);
    EXPECT_EQ(reason, "Signal " + std::to_string(signal));
  }
}

TEST(StopSignals, FurtherRequestsAreCountedAndTheFirstIsNamed) {
  int n_named = 0;
  StopSignals signals({.grace = {}, .on_stop = [&](std::string_view) { ++n_named; }});
  signals.serve();
  signals.request_stop("the launcher is gone");
  signals.wait({});
  send(SIGTERM);
  EXPECT_TRUE(soon([&] { return signals.n_requests() == 2; }));
  signals.request_stop("again");
  EXPECT_EQ(signals.n_requests(), 3);
  EXPECT_EQ(n_named, 1);
}

TEST(StopSignals, TheStateIsDumpedOnlyWhileTheProcessWaits) {
  StopSignals signals({});
  signals.serve();
  send(SIGUSR1);  // nobody is there to be asked
  std::atomic<int> n_dumps = 0;
  std::thread waiting([&] { signals.wait([&] { ++n_dumps; }); });
  EXPECT_TRUE(soon([&] {
    send(SIGUSR1);
    return n_dumps > 0;
  }));
  signals.request_stop("enough");
  waiting.join();
  const int n_before = n_dumps;
  send(SIGUSR1);
  send(SIGTERM);
  EXPECT_TRUE(soon([&] { return signals.n_requests() == 2; }));
  EXPECT_EQ(n_dumps, n_before);
}

TEST(StopSignals, AHangUpIsPassedOnAndStopsNothing) {
  std::atomic<int> n_hangups = 0;
  StopSignals signals({.grace = {}, .on_hangup = [&] { ++n_hangups; }});
  send(SIGHUP);
  EXPECT_TRUE(soon([&] { return n_hangups == 1; }));
  signals.serve();
  send(SIGHUP);
  EXPECT_TRUE(soon([&] { return n_hangups == 2; }));
  EXPECT_EQ(signals.n_requests(), 0);
}

TEST(StopSignals, ASignalBeforeServingEndsTheProcessWithSuccess) {
  const auto start = [] {
    const StopSignals signals({});
    send(SIGTERM);
    std::this_thread::sleep_for(milliseconds(10'000));
    std::_Exit(1);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(0), "");
}

TEST(StopSignals, TheGraceEndsAProcessThatHangs) {
  const auto hang = [](StopSignals::Options options, bool by_signal) {
    StopSignals signals(std::move(options));
    signals.serve();
    if (by_signal) {
      send(SIGTERM);
    } else {
      signals.request_stop("the launcher is gone", milliseconds(20));
    }
    signals.wait({});
    std::this_thread::sleep_for(milliseconds(10'000));
    std::_Exit(1);
  };
  EXPECT_EXIT(
      hang({.grace = milliseconds(20), .on_stop = {}}, true), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(hang({}, false), ::testing::ExitedWithCode(0), "");
}

TEST(StopSignals, WithoutAGraceTheProcessTakesItsTime) {
  const auto finish = [] {
    StopSignals signals({});
    signals.serve();
    send(SIGTERM);
    signals.wait({});
    std::this_thread::sleep_for(milliseconds(100));
    std::_Exit(7);
  };
  EXPECT_EXIT(finish(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace coxswain::serve
