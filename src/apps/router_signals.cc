#include "apps/router_signals.h"

#include <cstdlib>
#include <pthread.h>
#include <utility>

namespace coxswain::apps {

RouterSignals::RouterSignals(std::function<void()> on_dump) : on_dump_(std::move(on_dump)) {
  sigemptyset(&signals_);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { loop(); });
}

RouterSignals::~RouterSignals() {
  {
    std::lock_guard lock(mu_);
    ending_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void RouterSignals::loop() {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals_, &signal) != 0) continue;
    {
      std::lock_guard lock(mu_);
      if (ending_) return;
      // Under the lock: main() takes nothing down meanwhile.
      if (signal == SIGUSR1 && serving_ && n_requests_ == 0) on_dump_();
    }
    if (signal != SIGUSR1) on_request();
  }
}

void RouterSignals::on_request() {
  {
    std::lock_guard lock(mu_);
    if (!serving_) std::_Exit(0);
    ++n_requests_;
  }
  asked_.notify_all();
}

void RouterSignals::serve() {
  std::lock_guard lock(mu_);
  serving_ = true;
}

void RouterSignals::request_stop() {
  on_request();
}

void RouterSignals::wait() {
  std::unique_lock lock(mu_);
  asked_.wait(lock, [&] { return n_requests_ > 0; });
}

int RouterSignals::n_requests() const {
  std::lock_guard lock(mu_);
  return n_requests_;
}

}  // namespace coxswain::apps
