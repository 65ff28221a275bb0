#pragma once
// RouterSignals: SIGTERM and SIGINT as a value that main() waits for.
//
// Until serve() a signal ends the process at once with code 0, for there is nothing to finish.
// After it the first signal, or request_stop(), asks for an orderly end and each further signal for
// a faster one. SIGUSR1 calls `on_dump` while the process serves; it must not call this
// object.
//
// Thread rule: construct in main() after hold_signals() and before any other thread exists, one
// object in a process; methods from any thread.

#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

namespace coxswain::apps {

class RouterSignals {
 public:
  explicit RouterSignals(std::function<void()> on_dump);
  ~RouterSignals();
  RouterSignals(const RouterSignals&) = delete;
  RouterSignals& operator=(const RouterSignals&) = delete;

  void serve();
  void request_stop();
  void wait();
  // How often a stop was asked for.
  int n_requests() const;

 private:
  void loop();
  void on_request();

  std::function<void()> on_dump_;
  sigset_t signals_{};
  mutable std::mutex mu_;
  std::condition_variable asked_;
  bool serving_ = false;  // guarded by mu_
  bool ending_ = false;   // guarded by mu_
  int n_requests_ = 0;    // guarded by mu_
  std::thread thread_;
};

}  // namespace coxswain::apps
