#pragma once
// ManagerLoop: what the worker of a BatchManager does, without the thread. One turn is one iteration:
//
//     get_requests -> plan and compute one step -> send_response -> poll_stop_signals -> return_stats
//
// The engine's events are only collected while a step is applied; they leave together afterwards, when nothing of an
// ended request is left in the engine (EngineOptions::final_after_retire).
//
// Thread rule: one thread, but for kv_events().

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <coxswain/batch_manager.h>
#include <coxswain/stats.h>
#include <coxswain/step_runner.h>

#include "batch/engine_core.h"
#include "batch/engine_observer.h"
#include "batch/posted_work.h"
#include "manager/manager_stats.h"
#include "manager/request_tensors.h"
#include "manager/safe_callbacks.h"
#include "manager/served_request.h"

namespace coxswain::manager {

class ManagerLoop {
 public:
  struct Settings {
    batch::EngineOptions engine;
    BatchingType type = BatchingType::kInflightFused;
    std::int32_t max_beam_width = 1;
    BatchManagerOptions options;
  };

  // `callbacks` outlives the loop. `wake` is called from any thread: another turn has something to do.
  ManagerLoop(
      std::shared_ptr<StepRunner> runner,
      const Settings& settings,
      SafeCallbacks& callbacks,
      std::function<void()> wake = [] {});
  ~ManagerLoop();

  // One iteration; with `leaving` no requests are asked for. False: there was nothing to do.
  bool turn(bool leaving);
  // All requests are answered.
  bool is_empty() const { return served_.empty() && news_.empty(); }
  // Of the last turn; without a request nothing is active or scheduled in it.
  const ManagerStats& stats() const { return stats_; }
  // Any thread.
  KvEvents kv_events();
  // The request of terminate_req_id has come.
  bool has_left() const { return left_; }

 private:
  class Observer;  // keeps the statistics of the last step

  void take_requests();
  void take_request(const InferenceRequest& request);
  Status admit(const InferenceRequest& request);
  void serve(ParsedRequest parsed, std::uint64_t n_output_bytes);
  void refuse(std::uint64_t id, std::string error);
  bool compute();
  void send_news();
  void send_outputs(ServedRequest& served);
  void send_error(const ServedRequest& served);
  void forget(const ServedRequest& served);
  void stop(std::uint64_t id);
  void poll_stops(TimePoint now);
  void tell_stats(TimePoint now);
  std::int32_t room() const;  // negative = no limit
  Status refuse_full() const;

  const Settings settings_;
  SafeCallbacks& callbacks_;
  const RunnerInfo info_;
  const TensorRules rules_;
  std::unique_ptr<Observer> observer_;
  // By id, until the final response.
  std::unordered_map<std::uint64_t, std::shared_ptr<ServedRequest>> served_;
  std::uint64_t output_bytes_ = 0;  // of all in served_
  std::size_t n_active_ = 0;        // their sequences
  ServedRequest::News news_;        // with something to send, in the order of events
  StatsCollector collector_;
  ManagerStats stats_;
  TimePoint next_stop_poll_{};
  TimePoint next_stats_{};
  bool left_ = false;
  batch::PostedWork posted_;  // by the tier of the core, which it outlives
  batch::EngineCore core_;    // its sinks are in served_
};

}  // namespace coxswain::manager
