#include "rpc/runner_gate.h"

#include <utility>

#include "base/mutex.h"

namespace coxswain::rpc {

RunnerGate::StreamLease::~StreamLease() {
  if (gate_ == nullptr) return;
  {
    base::MutexLock lock(gate_->mu_);
    gate_->streaming_ = false;
    gate_->leave_ = nullptr;
  }
  gate_->changed_.notify_all();
}

void RunnerGate::on_stream_open(std::function<void()> drop_stock_sequences) {
  base::MutexLock lock(mu_);
  drop_stock_sequences_ = std::move(drop_stock_sequences);
}

std::optional<RunnerGate::StreamLease> RunnerGate::open_stream(std::function<void()> leave) {
  base::MutexLock lock(mu_);
  const std::uint64_t mine = ++newest_;
  if (streaming_ && leave_) leave_();
  changed_.notify_all();  // older ones that still wait give up
  changed_.wait(lock, [&]() REQUIRES(mu_) { return !streaming_ || newest_ != mine; });
  if (newest_ != mine) return std::nullopt;
  if (drop_stock_sequences_) drop_stock_sequences_();
  streaming_ = true;
  leave_ = std::move(leave);
  return StreamLease(this);
}

// The lock leaves with the value, which the analysis does not follow.
Result<RunnerGate::StockCall> RunnerGate::begin_stock_call() NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(mu_);
  if (streaming_) {
    return Status(
        Code::kFailedPrecondition, ErrorKind::kUnavailable, "an Engine stream drives this shard");
  }
  return StockCall(std::move(lock));
}

}  // namespace coxswain::rpc
