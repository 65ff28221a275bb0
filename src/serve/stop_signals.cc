#include "serve/stop_signals.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <pthread.h>
#include <utility>

#include "base/thread_name.h"

namespace coxswain::serve {
namespace {

using std::chrono::nanoseconds;

// Wakes the thread that waits for signals: something has changed.
constexpr int kWakeUp = SIGUSR2;

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

sigset_t watched_signals() {
  return set_of({SIGTERM, SIGINT, SIGHUP, SIGUSR1, kWakeUp});
}

timespec time_until(TimePoint deadline) {
  const auto left =
      std::max(std::chrono::duration_cast<nanoseconds>(deadline - Clock::now()), nanoseconds(0));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
}

}  // namespace

void hold_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = set_of({SIGTERM, SIGINT, SIGHUP, SIGUSR1});
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

StopSignals::StopSignals(Options options) : options_(std::move(options)) {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] {
    base::name_thread("signals");
    watch();
  });
}

StopSignals::~StopSignals() {
  {
    base::MutexLock lock(mu_);
    over_ = true;
  }
  pthread_kill(thread_.native_handle(), kWakeUp);
  thread_.join();
}

void StopSignals::watch() {
  for (;;) {
    const int signal = next_signal();
    {
      base::MutexLock lock(mu_);
      if (over_) return;
      // What keeps the process from ending is of no use to anybody; sockets and locks are the system's to clean up.
      if (deadline_ && Clock::now() >= *deadline_) std::_Exit(EXIT_SUCCESS);
    }
    if (signal == SIGUSR1) dump_state();
    if (signal == SIGHUP && options_.on_hangup) options_.on_hangup();
    if (signal == SIGTERM || signal == SIGINT) {
      request_stop("Signal " + std::to_string(signal), options_.grace);
    }
  }
}

int StopSignals::next_signal() {
  const sigset_t set = watched_signals();
  std::optional<TimePoint> deadline;
  {
    base::MutexLock lock(mu_);
    deadline = deadline_;
  }
  if (!deadline) {
    int signal = 0;
    return sigwait(&set, &signal) == 0 ? signal : kWakeUp;
  }
  const timespec left = time_until(*deadline);
  return std::max(sigtimedwait(&set, nullptr, &left), 0);
}

void StopSignals::dump_state() {
  base::MutexLock lock(mu_);  // so that wait() returns, and things are taken down, behind it
  if (n_requests_ == 0 && dump_) dump_();
}

void StopSignals::serve() {
  base::MutexLock lock(mu_);
  serving_ = true;
}

void StopSignals::request_stop(std::string_view reason,
                               std::optional<std::chrono::milliseconds> end_within) {
  {
    base::MutexLock lock(mu_);
    if (n_requests_++ == 0 && options_.on_stop) options_.on_stop(reason);
    if (!serving_) std::_Exit(EXIT_SUCCESS);
    if (end_within) {
      const TimePoint end = Clock::now() + *end_within;
      deadline_ = deadline_ ? std::min(*deadline_, end) : end;
    }
  }
  asked_.notify_all();
  pthread_kill(thread_.native_handle(), kWakeUp);  // it may have to wake up earlier
}

void StopSignals::wait(std::function<void()> dump) {
  base::MutexLock lock(mu_);
  dump_ = std::move(dump);
  asked_.wait(lock, [&]() REQUIRES(mu_) { return n_requests_ > 0; });
  dump_ = nullptr;
}

int StopSignals::n_requests() const {
  base::MutexLock lock(mu_);
  return n_requests_;
}

}  // namespace coxswain::serve
