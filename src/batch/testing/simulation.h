#pragma once
// Simulation: laws 2 and 3 under everything that can happen at once. Under a clock that only the runner's steps and
// waiting move, a seed draws the runner's kind and cache, policies and limits; steps that are quick, stretched, slow or
// hang until somebody ends them, fail or lose the runner, and rows that fail; requests of one and of several sequences
// that begin alike, and beam searches, with deadlines, stop strings, priorities and retention; cancels, clients that do
// not read, runners that are replaced, also while a step hangs; a tier behind the cache that is slow, forgets, and
// gives back what is broken.
//
// Every sequence gets one final event, in time whatever the runner does; its text is what the request yields alone, or
// the beginning of it; the engine's invariants hold after each half of a pass, and what step_watch.h looks at with each
// step; nobody waits without need; at the end everything is given back.
//
// simulation_draws.cc has what a seed draws, simulation_checks.cc what an answer must be, simulation.cc the rest.
//
// Thread rule: one thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "batch/engine_core.h"
#include "batch/testing/core_driver.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/fake_tier.h"
#include "batch/testing/recorder.h"
#include "batch/testing/step_watch.h"

namespace coxswain::batch::testing {

class Simulation {
 public:
  // What the runs of all seeds met.
  struct Met {
    std::map<std::pair<Code, ErrorKind>, std::uint64_t> ends;
    std::map<CapacityPolicy, std::uint64_t> n_pauses;
    std::uint64_t n_requests = 0;
    std::uint64_t n_late_steps = 0;        // waits that came back before their step
    std::uint64_t n_ends_beside_step = 0;  // deadlines answered while a step ran
    std::uint64_t n_stop_strings = 0;
    std::uint64_t n_early_tokens = 0;  // events ahead of the result of their step
    std::uint64_t n_silent = 0;        // clients that did not read for too long
    std::uint64_t n_replaced = 0;
    std::uint64_t n_evicted = 0;  // blocks
    std::map<Code, std::uint64_t> search_ends;
    std::uint64_t n_search_pauses = 0;
    std::uint64_t n_searches_cut = 0;  // that a stream had told of before they failed
    // Blocks that the tier has kept and brought back, and those of sequences that were paused.
    KvTierStats tier;
  };

  // The same seed does the same. What it met is added to `met`.
  Simulation(std::uint64_t seed, Met& met);

  // What is wrong is a failure of the test.
  void run();

 private:
  struct Tracked {
    GenerationRequest request;
    std::shared_ptr<RequestRecorder> sink;
    std::vector<std::optional<TimePoint>> final_at;  // per sequence
    std::optional<TimePoint> cancelled_at;
    bool was_stalled = false;
  };

  bool one_in(std::uint64_t n) { return make_.pick(n) == 0; }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(make_.pick(high - low + 1));
  }
  Clock::duration time_between(std::uint32_t low_us, std::uint32_t high_us) {
    return std::chrono::microseconds(between(low_us, high_us));
  }

  FakeRunnerOptions draw_fake(bool tells_early);
  void draw_beam_fake(FakeRunnerOptions& o);
  EngineOptions draw_options();
  FakeTier::Fault draw_tier_fault();
  Clock::duration draw_step_time(const StepPlan& plan);
  GenerationRequest draw_request(TimePoint at);
  void make_search(GenerationRequest& request);

  void do_tier_jobs();
  void start_runner();
  void replace();
  void check();
  void pass();
  void act(TimePoint at);
  void submit(TimePoint at);
  void note_event(Tracked& t, std::uint32_t sequence);
  void settle();

  void check_answer(const Tracked& t);
  void check_search(const Tracked& t);
  void check_sequence(const Tracked& t, std::uint32_t i);
  void check_end(const Tracked& t, std::uint32_t i);
  void check_time(const Tracked& t, const TokenEvent& event, TimePoint final_at) const;

  RequestMaker make_;
  Met& met_;
  bool failures_ = true;
  bool searches_ = false;     // the runner lists candidates
  bool runner_gone_ = false;  // takes no plan any more
  std::shared_ptr<FakeTier> tier_;
  std::vector<EngineWork> posted_;
  FakeRunnerOptions fake_;
  EngineOptions options_;
  const bool quick_;  // no step is slow, and more happens meanwhile
  TimePoint now_ = TimePoint(std::chrono::hours(1));
  std::shared_ptr<FakeRunner> runner_;
  StepWatch watch_;
  PassOn outlet_;
  EngineCore core_;
  TimePoint next_action_{};
  std::vector<std::unique_ptr<Tracked>> all_;
};

}  // namespace coxswain::batch::testing
