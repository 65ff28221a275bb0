#pragma once
// CoreDriver: an EngineCore over a FakeRunner, driven turn by turn with a clock that only moves
// when told. One turn is what the engine thread does in one pass; invariants are checked after each
// half of it.
//
// Thread rule: one thread.

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine_core.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "batch/testing/recording_observer.h"

namespace coxswain::batch::testing {

// All are answered, and every block is given back.
inline void expect_idle(const EngineStats& s) {
  EXPECT_EQ(s.blocks_leased + s.blocks_retiring, 0U);
  EXPECT_EQ(s.blocks_free + s.blocks_cached, s.blocks_total);
  EXPECT_EQ(s.accepted, s.finished + s.failed + s.cancelled);
  EXPECT_EQ(s.queued + s.running, 0U);
}

class CoreDriver {
 public:
  explicit CoreDriver(const FakeRunnerOptions& fake = {}, const EngineOptions& engine_options = {})
      : fake_(fake),
        options_(engine_options),
        runner(std::make_shared<FakeRunner>(fake)),
        core(std::make_unique<EngineCore>(runner, engine_options, base::HashKey{3, 4}, hooks())) {}
  ~CoreDriver() {
    for (const std::string& what : runner->violations())
      ADD_FAILURE() << "the runner refuses: " << what;
  }

  // Null if the request is refused; `status` says why.
  std::shared_ptr<Recorder> add(const GenerationRequest& request) {
    status = EngineCore::admissible(runner->info(), options_, request, request.prompt);
    if (!status.ok()) return nullptr;
    auto sink = std::make_shared<Recorder>(request.progress);
    core->add(request, sink, now);
    return sink;
  }

  // As add(), of a request with several sequences.
  std::shared_ptr<RequestRecorder> add_all(const GenerationRequest& request) {
    status = EngineCore::admissible(runner->info(), options_, request, request.prompt);
    if (!status.ok()) return nullptr;
    auto sink = std::make_shared<RequestRecorder>(request.n_answers());
    core->add(request, sink, now);
    return sink;
  }

  void check() {
    const std::string wrong = core->check();
    ASSERT_EQ(wrong, "") << "after turn " << n_turns;
  }

  // True if a step was computed.
  bool turn() {
    ++n_turns;
    now += turn_time;
    for (const EngineWork& work : std::exchange(posted_, {})) work(*core);
    core->advance(now);
    while (core->submit_next(now)) check();
    check();
    if (core->n_in_flight() == 0) return false;
    Result<StepResult> result = core->wait_oldest();  // may move the clock
    while (core->still_runs(result)) result = core->wait_oldest();
    core->apply_oldest(std::move(result), now);
    check();
    ++n_steps;
    return true;
  }

  // Until everything is answered. False if it does not come to an end.
  bool run(int n_turns_max = 20'000) {
    for (int i = 0; i < n_turns_max && core->n_sequences() > 0; ++i) turn();
    if (core->n_sequences() > 0) return false;
    turn();
    turn();  // the runner is told what it may forget
    return true;
  }

  void expect_idle() const { testing::expect_idle(core->stats()); }

 private:
  EngineCore::Hooks hooks() {
    return {.before_final_event = [](RequestId) {},
            .runner_lost = [] {},
            .observer = &observer,
            .post = [this](EngineWork work) { posted_.push_back(std::move(work)); }};
  }
  FakeRunnerOptions fake_;
  EngineOptions options_;
  std::vector<EngineWork> posted_;

 public:
  RecordingObserver observer;
  std::shared_ptr<FakeRunner> runner;
  std::unique_ptr<EngineCore> core;
  TimePoint now = TimePoint(std::chrono::hours(1));
  // Of a turn, beside what its step takes.
  Clock::duration turn_time = std::chrono::milliseconds(1);
  Status status;
  int n_turns = 0;
  int n_steps = 0;
};

// Requests that share prefixes, identities and lengths by a seed.
class RequestMaker {
 public:
  explicit RequestMaker(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}

  std::uint64_t pick(std::uint64_t n) {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return (state_ >> 11U) % n;
  }

  GenerationRequest make(std::size_t n_prompt_max, std::uint32_t n_new_max) {
    GenerationRequest r;
    r.id = RequestId{next_id_++};
    const std::uint64_t family = pick(3);  // prompts of a family begin alike
    const std::size_t n_prompt = 1 + pick(n_prompt_max);
    const std::size_t n_alike = pick(n_prompt + 1);
    for (std::size_t i = 0; i < n_prompt; ++i) {
      r.prompt.push_back(static_cast<TokenId>(i < n_alike ? (family * 17 + i * 3) % 50 : pick(50)));
    }
    r.stopping.max_new_tokens = 1 + static_cast<std::uint32_t>(pick(n_new_max));
    r.stopping.ignore_eos = pick(5) == 0;
    r.sampling.do_sample = pick(2) == 0;
    r.sampling.seed = pick(1000);
    r.prompt_logprobs = pick(6) == 0;
    r.priority = static_cast<std::int32_t>(pick(3)) - 1;
    if (pick(5) == 0) r.adapter_digest = "adapter";
    if (pick(8) == 0) r.cache_salt = "salt";
    return r;
  }
  // One in four has more than one sequence.
  GenerationRequest make_some(std::size_t n_prompt_max, std::uint32_t n_new_max) {
    GenerationRequest r = make(n_prompt_max, n_new_max);
    if (pick(4) != 0) return r;
    for (std::uint64_t n = 1 + pick(3); n > 0; --n) r.more_seeds.push_back(pick(1000));
    return r;
  }

 private:
  std::uint64_t state_;
  std::uint64_t next_id_ = 1;
};

}  // namespace coxswain::batch::testing
