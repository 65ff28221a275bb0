#pragma once
// RecordingObserver: an EngineObserver that keeps what it is told.
//
// Thread rule: read it once the engine is gone.

#include <string>
#include <vector>

#include "batch/engine_observer.h"

namespace coxswain::batch::testing {

class RecordingObserver final : public EngineObserver {
 public:
  void on_state(const EngineState& state) override { states.push_back(state); }
  void on_request_admitted(const RequestAdmitted& request) override { admitted.push_back(request); }
  void on_admissions(std::uint32_t n_requests) override { n_admissions += n_requests; }
  void on_pause(RequestId request) override { paused.push_back(request); }
  void on_step_submitted(StepKind kind) override {
    ++(kind == StepKind::kPrefill ? n_prefills : n_decodes);
  }
  void on_step_finished(const StepFinished& step) override { finished.push_back(step); }
  void on_step_failed(StepKind, const Status& why) override { failed.push_back(why); }
  void on_drafts(const DraftCounts& counts) override { drafts += counts; }
  void on_runner_up() override { life += "up "; }
  void on_runner_lost(const Status& why) override { life += "lost: " + why.message() + " "; }
  void on_runner_replaced(std::size_t n_requests) override {
    life += "replaced, " + std::to_string(n_requests) + " wait ";
  }

  std::vector<EngineState> states;
  std::vector<RequestAdmitted> admitted;
  std::uint32_t n_admissions = 0;
  std::vector<RequestId> paused;
  std::uint32_t n_prefills = 0;
  std::uint32_t n_decodes = 0;
  DraftCounts drafts;
  std::vector<StepFinished> finished;
  std::vector<Status> failed;
  std::string life;  // of the runners
};

}  // namespace coxswain::batch::testing
