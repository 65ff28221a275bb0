#include "batch/inbox.h"

#include <utility>

#include "batch/engine_core.h"

namespace coxswain::batch {

Status Inbox::refuses_all() const {
  if (draining_)
    return {Code::kUnavailable, ErrorKind::kUnavailable, "the server is shutting down"};
  if (!stats_.runner_up)
    return {Code::kUnavailable, ErrorKind::kUnavailable, "no model runner is available"};
  return {};
}

Status Inbox::has_room(std::size_t n_sequences,
                       std::size_t n_tokens,
                       std::uint64_t n_output_bytes) const {
  const auto full = [](std::string_view limit, std::uint64_t value, std::string why) -> Status {
    return {Code::kResourceExhausted,
            ErrorKind::kOverloaded,
            "`" + std::string(limit) + "` is " + std::to_string(value) + ": " + std::move(why)};
  };
  if (n_never_scheduled_ + submitted_sequences_ + n_sequences > options_.queue_requests_max) {
    return full(
        "queue_requests_max", options_.queue_requests_max, "as many requests are waiting already");
  }
  const std::uint64_t n_outputs_max = info_->capabilities.output_bytes_max;
  if (n_output_bytes > 0 && output_bytes_ + n_output_bytes > n_outputs_max) {
    return full("output_bytes_max",
                n_outputs_max,
                "requests have asked for logits and hidden states of " +
                    std::to_string(output_bytes_) + " bytes already, this one for " +
                    std::to_string(n_output_bytes));
  }
  const std::uint64_t n_waiting = stats_.queued_tokens + submitted_tokens_;
  if (n_waiting + n_tokens > options_.queue_tokens_max) {
    return full("queue_tokens_max",
                options_.queue_tokens_max,
                std::to_string(n_waiting) + " tokens are waiting already, the request has " +
                    std::to_string(n_tokens));
  }
  return {};
}

Status Inbox::submit(GenerationRequest request, std::shared_ptr<TokenSink> sink) {
  std::shared_ptr<const RunnerInfo> info;
  {
    base::MutexLock lock(mu_);
    COXSWAIN_RETURN_IF_ERROR(refuses_all());
    info = info_;
  }
  // Without the lock: this looks at every token.
  COXSWAIN_RETURN_IF_ERROR(EngineCore::admissible(*info, options_, request, request.prompt));
  const std::size_t n_sequences = request.n_sequences();
  const std::size_t n_ids = request.prompt.size() + request.progress.ids.size();
  const std::size_t n_tokens = n_sequences * waiting_tokens(request, n_ids);
  const std::uint64_t n_output_bytes = output_bytes(*info, request, request.prompt.size());
  {
    base::MutexLock lock(mu_);
    COXSWAIN_RETURN_IF_ERROR(refuses_all());
    COXSWAIN_RETURN_IF_ERROR(has_room(n_sequences, n_tokens, n_output_bytes));
    const Active active{.output_bytes = n_output_bytes};
    if (!active_.emplace(static_cast<std::uint64_t>(request.id), active).second) {
      return {Code::kFailedPrecondition,
              ErrorKind::kInternal,
              "a request with this id is still being served"};
    }
    submitted_sequences_ += n_sequences;
    output_bytes_ += n_output_bytes;
    submitted_tokens_ += n_tokens;
    commands_.submissions.push_back({std::move(request), std::move(sink), Clock::now()});
  }
  arrived_.notify_one();
  return {};
}

void Inbox::cancel(RequestId id) {
  {
    base::MutexLock lock(mu_);
    const auto it = active_.find(static_cast<std::uint64_t>(id));
    if (it == active_.end() || it->second.cancelled) return;
    it->second.cancelled = true;  // so that the list is no longer than the active requests
    commands_.cancels.push_back(id);
  }
  arrived_.notify_one();
}

void Inbox::post(EngineWork work) {
  {
    base::MutexLock lock(mu_);
    commands_.work.push_back(std::move(work));
  }
  arrived_.notify_one();
}

void Inbox::replace_runner(std::shared_ptr<StepRunner> runner) {
  auto info = std::make_shared<const RunnerInfo>(runner->info());
  {
    base::MutexLock lock(mu_);
    info_ = std::move(info);
    commands_.runner = std::move(runner);
    stats_.runner_up = true;
  }
  arrived_.notify_one();
}

void Inbox::stop() {
  {
    base::MutexLock lock(mu_);
    draining_ = true;
    commands_.stop = true;
  }
  arrived_.notify_one();
}

bool Inbox::drain(std::chrono::milliseconds grace) {
  base::MutexLock lock(mu_);
  draining_ = true;
  return answered_.wait_for(lock, grace, [&]() REQUIRES(mu_) {
    return commands_.submissions.empty() && stats_.queued + stats_.running == 0 &&
           stats_.blocks_retiring == 0;
  });
}

EngineStats Inbox::stats() const {
  base::MutexLock lock(mu_);
  EngineStats out = stats_;
  out.accepted += submitted_sequences_;
  out.queued += static_cast<std::uint32_t>(submitted_sequences_);
  out.queued_tokens += submitted_tokens_;
  return out;
}

Inbox::Commands Inbox::take(bool wait, TimePoint deadline) {
  base::MutexLock lock(mu_);
  const auto arrived = [&]() REQUIRES(mu_) { return !commands_.empty(); };
  if (wait && deadline == TimePoint::max()) {
    arrived_.wait(lock, arrived);
  } else if (wait) {
    arrived_.wait_until(lock, deadline, arrived);
  }
  Commands out = std::exchange(commands_, {});
  const std::size_t n_sequences = std::exchange(submitted_sequences_, 0);
  stats_.accepted += n_sequences;
  stats_.queued += static_cast<std::uint32_t>(n_sequences);
  stats_.queued_tokens += std::exchange(submitted_tokens_, 0);
  n_never_scheduled_ += n_sequences;
  return out;
}

void Inbox::forget(RequestId id) {
  base::MutexLock lock(mu_);
  const auto it = active_.find(static_cast<std::uint64_t>(id));
  if (it == active_.end()) return;
  // A cancel that comes too late shall not meet a later request of that id.
  if (it->second.cancelled) std::erase(commands_.cancels, id);
  output_bytes_ -= it->second.output_bytes;
  active_.erase(it);
}

void Inbox::publish(const EngineStats& stats, std::size_t n_never_scheduled) {
  {
    base::MutexLock lock(mu_);
    const bool runner_up = stats.runner_up || commands_.runner != nullptr;
    stats_ = stats;
    stats_.runner_up = runner_up;
    n_never_scheduled_ = n_never_scheduled;
  }
  if (stats.queued + stats.running == 0) answered_.notify_all();
}

void Inbox::runner_lost() {
  base::MutexLock lock(mu_);
  stats_.runner_up = commands_.runner != nullptr;
}

}  // namespace coxswain::batch
