#pragma once
// EngineObserver: what an engine tells about itself while it works, for metrics, logs and tests.
//
// The engine knows neither: it hands over plain values, and whoever watches decides what becomes of them. Every method
// does nothing unless overridden.
//
// Thread rule: all calls come from the engine thread, but for those of the engine's construction, and one at a time. An
// observer must not block and must not call the engine; it outlives the engine.

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include <coxswain/kv_events.h>
#include <coxswain/stats.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "batch/engine_stats.h"
#include "batch/queued_by_priority.h"

namespace coxswain::batch {

// A step that computes at least a part of a prompt is a prefill, also where sequences decode beside it.
enum class StepKind : std::uint8_t { kPrefill, kDecode };

struct EngineState {
  EngineStats stats;
  QueuedByPriority queued;  // stats.queued together
  // Sequences that hold blocks; stats.running counts the ending ones too.
  std::uint32_t batch_sequences = 0;
  std::uint64_t batch_tokens_max = 0;    // positions that these will hold at most
  std::uint64_t cache_tokens_total = 0;  // positions that the KV cache holds (of group 0)
};

// What a request found in the prefix cache: every block of its prompt that may be found, some tokens, nothing.
enum class PrefixHit : std::uint8_t { kHit, kPartial, kMiss };

// A request's first admission to a step; not when it comes back after a pause.
struct RequestAdmitted {
  RequestId request{};
  std::uint32_t n_prompt_tokens = 0;
  std::uint32_t n_cached_tokens = 0;  // of these, found in the prefix cache
  std::uint32_t n_copied_tokens = 0;  // of these, the beginning of a block
  PrefixHit hit = PrefixHit::kMiss;
};

struct StepFinished {
  std::uint64_t step = 0;
  StepKind kind = StepKind::kDecode;
  std::uint32_t n_rows = 0;
  std::uint32_t n_prompt_tokens = 0;    // of these rows; 0 of a decode
  std::chrono::nanoseconds duration{};  // from submission to the result
  StepTimings timings;                  // as the runner measured them
  WaitReason wait = WaitReason::kNone;  // of the head of the queue, when the step was planned
  // Its decodes and the least of a prompt were expected to take so long, which is more than target_itl; otherwise 0.
  std::chrono::nanoseconds floor{};
};

// Tokens that the runner guessed ahead.
struct DraftCounts {
  std::uint32_t computed = 0;
  std::uint32_t accepted = 0;  // of these

  DraftCounts& operator+=(const DraftCounts& other) {
    computed += other.computed;
    accepted += other.accepted;
    return *this;
  }
  friend bool operator==(const DraftCounts&, const DraftCounts&) = default;
};

// What on_iteration() and on_kv_events() are told. It costs a step something only where it is wanted; `requests` costs
// a walk over all.
struct StatsWanted {
  bool iterations = false;
  bool requests = false;
  bool kv_events = false;
};

class EngineObserver {
 public:
  virtual ~EngineObserver() = default;

  // After every half of a turn, and once at the start.
  virtual void on_state(const EngineState&) {}
  virtual void on_request_admitted(const RequestAdmitted&) {}
  // A step admits n > 0 requests, those that were paused before among them.
  virtual void on_admissions(std::uint32_t /*n_requests*/) {}
  // The request gives its blocks back and waits for its turn again.
  virtual void on_pause(RequestId) {}

  // For each step on_step_submitted(), then one of: on_step_finished() (not for a step without rows), on_step_failed(),
  // or on_runner_lost(), which ends every step in flight.
  virtual void on_step_submitted(StepKind) {}
  virtual void on_step_finished(const StepFinished&) {}
  virtual void on_step_failed(StepKind, const Status&) {}
  // Of each row that might have drafts, `accepted` of them being the tokens that it yielded beyond one.
  virtual void on_drafts(const DraftCounts&) {}

  // Asked once, at the engine's construction.
  virtual StatsWanted stats_wanted() const { return {}; }
  // Behind on_step_finished(), before the events of the step. `requests` ends with the call; empty unless wanted.
  virtual void on_iteration(const IterationStats&, std::span<const RequestStats> /*requests*/) {}

  // Behind the half of a pass that made them. They may be moved from. Never unless wanted.
  virtual void on_kv_events(std::span<KvEvent> /*events*/) {}

  // The first runner, at construction.
  virtual void on_runner_up() {}
  virtual void on_runner_lost(const Status&) {}
  // After on_runner_up() of a later runner: `n_requests` wait for it.
  virtual void on_runner_replaced(std::size_t /*n_requests*/) {}

  // The engine ends the process after this.
  virtual void on_broken_invariant(std::string_view /*what*/) {}
};

}  // namespace coxswain::batch
