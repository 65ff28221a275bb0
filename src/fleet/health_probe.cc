#include "fleet/health_probe.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace coxswain::fleet {

class HealthProbe::Sink final : public batch::TokenSink {
 public:
  void on_event(batch::TokenEvent event) override {
    if (!event.final) return;
    base::MutexLock lock(mu_);
    result_ = std::move(event.status);
  }
  std::optional<Status> result() const {
    base::MutexLock lock(mu_);
    return result_;
  }

 private:
  mutable base::Mutex mu_;
  std::optional<Status> result_ GUARDED_BY(mu_);
};

Status HealthProbe::look(TimePoint now, bool asked) {
  const batch::EngineStats stats = engine_.stats();
  last_good_ = std::max(last_good_, stats.last_step_at);
  if (running_) take_result(now);
  if (!last_.ok() && last_good_ > failed_at_) last_ = Status();
  const bool idle = stats.queued == 0 && stats.running == 0 && !running_;
  if (!asked || !idle || now - last_good_ < interval_) return last_;

  batch::GenerationRequest request;
  // Requests of clients count from the other end.
  request.id = RequestId{std::numeric_limits<std::uint64_t>::max() - n_probes_++};
  request.prompt = {0};
  request.stopping = {.max_new_tokens = 1, .stop_sequences = {}, .ignore_eos = true};
  request.cache_salt = "health";
  running_id_ = request.id;
  running_ = std::make_shared<Sink>();
  // Draining, or without a runner: others say so.
  if (!engine_.submit(std::move(request), running_).ok()) running_.reset();
  return last_;
}

void HealthProbe::take_result(TimePoint now) {
  const std::optional<Status> result = running_->result();
  if (!result) return;
  running_.reset();
  if (result->ok()) {
    last_ = Status();
    last_good_ = now;
  } else if (result->code() != Code::kCancelled) {
    last_ =
        Status(Code::kInternal, ErrorKind::kHealthcheck, "a probe failed: " + result->message());
    failed_at_ = now;
    last_good_ = now;  // the next probe is due an interval later
  }
}

void HealthProbe::forget() {
  // It may wait in an engine that has no runner, and would do so for as long.
  if (running_) engine_.cancel(running_id_);
  running_.reset();
  last_ = Status();
}

}  // namespace coxswain::fleet
