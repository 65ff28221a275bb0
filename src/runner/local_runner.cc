#include "runner/local_runner.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/float_mode.h"
#include "kvstore/block_image.h"
#include "runner/hidden_states.h"

namespace coxswain::runner {

LocalRunner::~LocalRunner() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (residency_ != nullptr)
    residency_->fail({Code::kUnavailable, ErrorKind::kUnavailable, "the runner is stopping"});
  if (loader_.joinable()) {
    source_->stop();
    loader_.join();
  }
  if (compute_.joinable()) compute_.join();
}

std::uint32_t LocalRunner::layers_ready() const {
  return residency_ == nullptr ? info_.n_layers : std::min(info_.n_layers, residency_->ready());
}

bool LocalRunner::is_loading() const {
  return residency_ != nullptr && residency_->ready() <= info_.n_layers &&
         residency_->failure().ok();
}

void LocalRunner::load_arriving(const RunnerOptions& options) {
  // Steps that wait leave the cores to it.
  kernels::ExecContext exec(n_loading_threads_);
  auto report = arriving_->load(&exec, [&](std::uint32_t n) { residency_->publish(n); });
  if (!report.ok()) {
    residency_->fail({Code::kUnavailable,
                      ErrorKind::kUnavailable,
                      "the weights did not arrive: " + report.status().message()});
  }
  bool is_stopping = false;
  {
    const base::MutexLock lock(mu_);
    is_stopping = stopping_;
  }
  if (options.on_weights && !is_stopping) options.on_weights(report);
}

Result<StepTicket> LocalRunner::submit(StepPlan plan) {
  const StepTicket ticket{.step = plan.step};
  {
    base::MutexLock lock(mu_);
    if (stopping_)
      return Status(Code::kUnavailable, ErrorKind::kUnavailable, "the runner is stopping");
    if (plan.epoch != info_.epoch)
      return Status(Code::kUnavailable, ErrorKind::kUnavailable, "the plan is for another epoch");
    if (plans_.size() + (running_ ? 1 : 0) + results_.size() >=
        info_.capabilities.plans_in_flight_max) {
      return internal_error("too many plans in flight");
    }
    plans_.push_back(std::move(plan));
  }
  changed_.notify_all();
  return ticket;
}

Result<StepResult> LocalRunner::wait(StepTicket ticket, TimePoint until) {
  base::MutexLock lock(mu_);
  if (plans_.empty() && !running_ && results_.empty())
    return internal_error("no plan is in flight");
  const auto ready = [&]() REQUIRES(mu_) { return !results_.empty() || stopping_; };
  if (until == TimePoint::max()) {
    changed_.wait(lock, ready);
  } else if (!changed_.wait_until(lock, until, ready)) {
    return not_yet(ticket);
  }
  if (results_.empty())
    return Status(Code::kUnavailable, ErrorKind::kUnavailable, "the runner is stopping");
  Result<StepResult> result = std::move(results_.front());
  results_.pop_front();
  if (result.ok() && result->step != ticket.step)
    return internal_error("tickets were waited for out of order");
  return result;
}

Status LocalRunner::healthy() {
  if (residency_ != nullptr) COXSWAIN_RETURN_IF_ERROR(residency_->failure());
  base::MutexLock lock(mu_);
  return stopping_ ? Status(Code::kUnavailable, ErrorKind::kUnavailable, "the runner is stopping")
                   : Status();
}

Status LocalRunner::attach(Attachment attachment) {
  if (!attachments_) {
    return {Code::kUnimplemented,
            "this runner takes no attachments: attachment_bytes_max is 0. Given: one of kind " +
                std::string(name_of(attachment.kind))};
  }
  switch (attachment.kind) {
    case AttachmentKind::kHidden:
      COXSWAIN_RETURN_IF_ERROR(check_hidden(attachment.bytes, model_->info().hidden_size));
      break;
    case AttachmentKind::kBlocks:
      COXSWAIN_RETURN_IF_ERROR(kvstore::check_image(layout_, attachment.bytes));
      break;
    default:
      return {Code::kUnimplemented,
              "this runner has no use for attachments of kind " +
                  std::string(name_of(attachment.kind))};
  }
  return attachments_->put(std::move(attachment));
}

Status LocalRunner::detach(std::uint64_t id) {
  if (attachments_) attachments_->erase(id);
  return {};
}

Status LocalRunner::export_blocks(const BlockTransfer& transfer, TimePoint until) {
  return attachments_ ? executor_->export_blocks(transfer)
                      : StepRunner::export_blocks(transfer, until);
}

Result<Attachment> LocalRunner::take(std::uint64_t id) {
  if (!attachments_) return StepRunner::take(id);
  return attachments_->take(id);
}

RunnerState LocalRunner::state() const {
  base::MutexLock lock(mu_);
  RunnerState out = state_;
  out.plans_in_flight = plans_.size() + (running_ ? 1 : 0) + results_.size();
  return out;
}

void LocalRunner::account(std::size_t n_positions,
                          const StepTimings& timings,
                          std::vector<kernels::OperationTime> operations) {
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  report_.add({.steps = 1,
               .positions = n_positions,
               .total_s = seconds(timings.total),
               .sample_s = seconds(timings.sample),
               .operations = std::move(operations)});
  if (report_.steps < profile_steps_) return;
  on_profile_(report_);
  report_ = {};
}

void LocalRunner::compute_loop() {
  const base::FloatMode mode;
  while (true) {
    StepPlan plan;
    bool is_counted = false;
    {
      base::MutexLock lock(mu_);
      changed_.wait(lock, [&]() REQUIRES(mu_) { return !plans_.empty() || stopping_; });
      if (stopping_) return;
      plan = std::move(plans_.front());
      plans_.pop_front();
      running_ = true;
      is_counted = warm_;
    }
    std::size_t n_positions = 0;
    for (const Row& row : plan.rows) n_positions += row.n_tokens;
    Result<StepResult> result = executor_->execute(std::move(plan));
    if (profile_ != nullptr) {
      std::vector<kernels::OperationTime> operations = profile_->take();
      if (is_counted && n_positions > 0 && result.ok())
        account(n_positions, result->timings, std::move(operations));
    }
    {
      base::MutexLock lock(mu_);
      running_ = false;
      ++state_.steps;
      state_.sequences = executor_->n_sequences();
      state_.drafts = executor_->draft_counts();
      results_.push_back(std::move(result));
    }
    changed_.notify_all();
  }
}

}  // namespace coxswain::runner
