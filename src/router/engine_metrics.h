#pragma once
// EngineMetrics: what the engine tells about itself (batch/engine_observer.h), as metrics and log lines. Of several
// engines each has its own; the gauges are the sums over all.
//
// Thread rule: as EngineObserver; metrics and log outlive it.

#include <cstdint>
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
  void on_drafts(const batch::DraftCounts& drafts) override;
  void on_runner_up() override;
  void on_runner_lost(const Status& why) override;
  void on_runner_replaced(std::size_t n_requests) override;
  void on_broken_invariant(std::string_view what) override;

  // Whether its shard answers: for whoever else learns of it. From any thread.
  telemetry::GaugePart& replica_up() { return replica_up_; }

 private:
  void count_tier(const KvTierStats& tier);
  void note_floor(const batch::StepFinished& step);

  KvTierStats tier_;  // as told last
  std::uint64_t n_floor_steps_ = 0;
  telemetry::Metrics& metrics_;
  telemetry::QueuePart queue_{metrics_};
  telemetry::GaugePart batch_size_{metrics_.batch_current_size};
  telemetry::GaugePart batch_tokens_max_{metrics_.batch_current_max_tokens};
  telemetry::GaugePart cache_tokens_{metrics_.batch_max_total_tokens};
  telemetry::GaugePart blocks_total_{metrics_.kv_blocks_total};
  telemetry::GaugePart blocks_free_{metrics_.kv_blocks_free};
  telemetry::GaugePart blocks_cached_{metrics_.kv_blocks_cached};
  telemetry::GaugePart blocks_leased_{metrics_.kv_blocks_leased};
  telemetry::GaugePart blocks_retiring_{metrics_.kv_blocks_retiring};
  telemetry::GaugePart tier_blocks_{metrics_.kv_tier_blocks};
  telemetry::GaugePart tier_bytes_{metrics_.kv_tier_bytes};
  telemetry::GaugePart tier_memory_blocks_{metrics_.kv_tier_memory_blocks};
  telemetry::GaugePart tier_memory_bytes_{metrics_.kv_tier_memory_bytes};
  telemetry::GaugePart replica_up_{metrics_.replica_up};
  telemetry::Logger& log_;
  const std::function<void()> on_lost_;
};

}  // namespace coxswain::router
