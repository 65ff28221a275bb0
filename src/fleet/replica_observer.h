#pragma once
// ReplicaObserver: passes on what an engine tells, and tells the fleet of what changes a replica's part in it.
//
// Thread rule: as batch::EngineObserver. What the fleet is told must not block.

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "batch/engine_observer.h"

namespace coxswain::fleet {

class ReplicaObserver final : public batch::EngineObserver {
 public:
  struct Notices {
    std::function<void()> on_state;  // often: after every half of a turn
    std::function<void()> on_lost;   // behind the final events of what ran
    std::function<void()> on_replaced;
    // A step with prompts.
    std::function<void(const batch::StepFinished&)> on_prompts = [](const auto&) {};
    // A request is in a step for the first time.
    std::function<void(RequestId)> on_admitted = [](RequestId) {};
  };

  // `next` is told everything; not owned.
  ReplicaObserver(batch::EngineObserver& next, Notices notices)
      : next_(next), notices_(std::move(notices)) {}

  void on_state(const batch::EngineState& state) override {
    next_.on_state(state);
    notices_.on_state();
  }
  void on_request_admitted(const batch::RequestAdmitted& r) override {
    next_.on_request_admitted(r);
    notices_.on_admitted(r.request);
  }
  void on_admissions(std::uint32_t n_requests) override { next_.on_admissions(n_requests); }
  void on_pause(RequestId id) override { next_.on_pause(id); }
  void on_step_submitted(batch::StepKind kind) override { next_.on_step_submitted(kind); }
  void on_step_finished(const batch::StepFinished& step) override {
    next_.on_step_finished(step);
    if (step.n_prompt_tokens > 0) notices_.on_prompts(step);
  }
  void on_step_failed(batch::StepKind kind, const Status& why) override {
    next_.on_step_failed(kind, why);
  }
  void on_drafts(const batch::DraftCounts& drafts) override { next_.on_drafts(drafts); }
  batch::StatsWanted stats_wanted() const override { return next_.stats_wanted(); }
  void on_iteration(const IterationStats& stats, std::span<const RequestStats> requests) override {
    next_.on_iteration(stats, requests);
  }
  void on_kv_events(std::span<KvEvent> events) override { next_.on_kv_events(events); }
  void on_runner_up() override { next_.on_runner_up(); }
  void on_runner_lost(const Status& why) override {
    next_.on_runner_lost(why);
    notices_.on_lost();
  }
  void on_runner_replaced(std::size_t n_requests) override {
    next_.on_runner_replaced(n_requests);
    notices_.on_replaced();
  }
  void on_broken_invariant(std::string_view what) override { next_.on_broken_invariant(what); }

 private:
  batch::EngineObserver& next_;
  const Notices notices_;
};

}  // namespace coxswain::fleet
