#pragma once
// EngineMetrics: what the engine tells about itself (batch/engine_observer.h), as metrics and log lines.
//
// Thread rule: as EngineObserver; metrics and log outlive it.

#include <functional>
#include <utility>

#include "batch/engine_observer.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace coxswain::router {

class EngineMetrics final : public batch::EngineObserver {
 public:
  // `on_lost`: told of a lost runner too, from the engine's thread.
  EngineMetrics(telemetry::Metrics& metrics,
                telemetry::Logger& log,
                std::function<void()> on_lost = {})
      : metrics_(metrics), log_(log), on_lost_(std::move(on_lost)) {}

  void on_state(const batch::EngineState& state) override;
  void on_request_admitted(const batch::RequestAdmitted& request) override;
  void on_admissions(std::uint32_t n_requests) override;
  void on_pause(RequestId request) override;
  void on_step_submitted(batch::StepKind kind) override;
  void on_step_finished(const batch::StepFinished& step) override;
  void on_step_failed(batch::StepKind kind, const Status& why) override;
  void on_runner_up() override;
  void on_runner_lost(const Status& why) override;
  void on_runner_replaced(std::size_t n_requests) override;
  void on_broken_invariant(std::string_view what) override;

 private:
  void count_tier(const KvTierStats& tier);

  KvTierStats tier_;  // as told last
  telemetry::Metrics& metrics_;
  telemetry::Logger& log_;
  const std::function<void()> on_lost_;
};

}  // namespace coxswain::router
