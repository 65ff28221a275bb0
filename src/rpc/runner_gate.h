#pragma once
// RunnerGate: who drives the StepRunner of this shard. At most one at a time: an Engine stream for
// as long as it lives, or one call of a stock router.
//
// The newest Engine stream wins: whoever held the runner before is asked to leave and must drop its
// sequences first. So a router that was killed, stopped or restarted never blocks its successor,
// and two routers on one shard show at once. While a stream lives, stock calls are refused.
//
// Thread rule: any thread.

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include <coxswain/status.h>

#include "base/mutex.h"

namespace coxswain::rpc {

class RunnerGate {
 public:
  // Held by an Engine stream; gives the runner back when destroyed.
  class StreamLease {
   public:
    StreamLease(StreamLease&& other) noexcept : gate_(other.gate_) { other.gate_ = nullptr; }
    StreamLease& operator=(StreamLease&&) = delete;
    ~StreamLease();

   private:
    friend class RunnerGate;
    explicit StreamLease(RunnerGate* gate) : gate_(gate) {}
    RunnerGate* gate_;
  };

  // Held by one call of a stock router; nobody else enters the gate meanwhile.
  class StockCall {
   private:
    friend class RunnerGate;
    explicit StockCall(std::unique_lock<base::Mutex> lock) : lock_(std::move(lock)) {}
    std::unique_lock<base::Mutex> lock_;
  };

  // Called with the gate held, before a stream gets the runner: the stock side must drop its sequences.
  void on_stream_open(std::function<void()> drop_stock_sequences);

  // Waits until the runner is free; `leave` is called, from another thread, when a newer stream
  // wants it. Empty if a newer stream came while this one waited.
  std::optional<StreamLease> open_stream(std::function<void()> leave);

  // The runner for one stock call, for as long as the value lives.
  // Errors: kFailedPrecondition while an Engine stream has it.
  Result<StockCall> begin_stock_call();

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  std::uint64_t newest_ GUARDED_BY(mu_) = 0;     // number of the newest stream that asked
  bool streaming_ GUARDED_BY(mu_) = false;       // a stream has the runner
  std::function<void()> leave_ GUARDED_BY(mu_);  // of that stream
  std::function<void()> drop_stock_sequences_ GUARDED_BY(mu_);
};

}  // namespace coxswain::rpc
