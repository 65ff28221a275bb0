#include "apps/stop_signals.h"

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace coxswain::apps {

namespace {

// Wakes the thread that waits for signals.
constexpr int kWakeUp = SIGUSR2;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, kWakeUp);
  return set;
}

}  // namespace

struct StopSignals::Impl {
  Impl(std::chrono::milliseconds grace_in, telemetry::Logger& log_in)
      : grace(grace_in), log(log_in) {}

  void watch() {
    const sigset_t set = watched_signals();
    for (;;) {
      int signal = 0;
      if (sigwait(&set, &signal) != 0) continue;
      if (signal == SIGUSR1) {
        dump_state();
        continue;
      }
      if (signal != kWakeUp) request("Signal " + std::to_string(signal));
      std::unique_lock lock(mu);
      // A long step may keep main() from ending; sockets and locks are gone by then.
      if (stopping && !changed.wait_for(lock, grace, [&] { return ended; }))
        std::_Exit(EXIT_SUCCESS);
      if (ended) return;
    }
  }

  void dump_state() {
    std::lock_guard lock(mu);
    if (dump && !stopping) dump();
  }

  void request(std::string_view reason) {
    std::lock_guard lock(mu);
    if (std::exchange(stopping, true)) return;
    log.info("Exiting gracefully: " + std::string(reason));
    if (!serving) std::_Exit(EXIT_SUCCESS);
    changed.notify_all();
  }

  const std::chrono::milliseconds grace;
  telemetry::Logger& log;
  std::mutex mu;
  std::function<void()> dump;
  std::condition_variable changed;
  bool serving = false;
  bool stopping = false;
  bool ended = false;
  std::thread thread;
};

StopSignals::StopSignals(std::chrono::milliseconds grace, telemetry::Logger& log)
    : impl_(std::make_unique<Impl>(grace, log)) {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  impl_->thread = std::thread([impl = impl_.get()] { impl->watch(); });
}

StopSignals::~StopSignals() {
  {
    std::lock_guard lock(impl_->mu);
    impl_->ended = true;
  }
  impl_->changed.notify_all();
  pthread_kill(impl_->thread.native_handle(), kWakeUp);
  impl_->thread.join();
}

void StopSignals::serve() {
  std::lock_guard lock(impl_->mu);
  impl_->serving = true;
}

void StopSignals::set_dump(std::function<void()> dump) {
  std::lock_guard lock(impl_->mu);
  impl_->dump = std::move(dump);
}

void StopSignals::wait() {
  std::unique_lock lock(impl_->mu);
  impl_->changed.wait(lock, [&] { return impl_->stopping; });
}

void StopSignals::stop(std::string_view reason) {
  impl_->request(reason);
  pthread_kill(impl_->thread.native_handle(), kWakeUp);
}

}  // namespace coxswain::apps
