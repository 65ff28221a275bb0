#include "batch/testing/simulation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace coxswain::batch::testing {
namespace {

using namespace std::chrono_literals;

// How often the engine thread looks up from a running step.
constexpr auto kPoll = 10ms;

}  // namespace

Simulation::Simulation(std::uint64_t seed, Met& met)
    : make_(seed),
      met_(met),
      fake_(draw_fake(seed % 2 == 0)),
      options_(draw_options()),
      quick_(make_.pick(3) == 0),
      runner_(std::make_shared<FakeRunner>(fake_)),
      watch_(options_, runner_->info()),
      core_(runner_,
            options_,
            base::HashKey{seed, 4},
            {.observer = &watch_,
             .post = [this](EngineWork work) { posted_.push_back(std::move(work)); }}) {
  start_runner();
}

void Simulation::run() {
  const int n_actions = quick_ ? 500 : 250;
  next_action_ = now_;
  for (int i = 0; i < n_actions;) {
    for (; i < n_actions && next_action_ <= now_; ++i) {
      act(next_action_);
      next_action_ += std::chrono::microseconds(make_.pick(quick_ ? 3'000 : 16'000));
    }
    pass();
    if (::testing::Test::HasFailure()) return;
  }
  settle();
  for (const auto& t : all_) check_answer(*t);
}

// The tier's thread, which may be behind.
void Simulation::do_tier_jobs() {
  while (tier_ != nullptr && !one_in(3) && tier_->do_one()) {
  }
  for (const EngineWork& work : std::exchange(posted_, {})) work(core_);
}

void Simulation::start_runner() {
  runner_gone_ = false;
  runner_->set_clock(&now_);
  runner_->step_time = [this](const StepPlan& plan) { return draw_step_time(plan); };
  runner_->submit_failure = [this](std::uint64_t) -> Status {
    runner_gone_ = runner_gone_ || (failures_ && one_in(1000));
    return runner_gone_ ? Status(Code::kUnavailable, "the runner is gone") : Status();
  };
  runner_->step_failure = [this](std::uint64_t) -> Status {
    const std::uint64_t dice = failures_ ? make_.pick(250) : 2;
    if (dice == 0) return {Code::kUnavailable, "the runner died"};
    return dice == 1 ? internal_error("the plan broke a rule") : Status();
  };
  runner_->row_failure = [this](std::uint64_t, const SequenceSpec&) -> Status {
    if (!failures_ || !one_in(300)) return {};
    return {Code::kInternal, "logits are not finite"};
  };
}

// As the launcher does: a new runner with a new epoch.
void Simulation::replace() {
  for (const std::string& what : runner_->violations()) ADD_FAILURE() << what;
  ++fake_.epoch;
  ++met_.n_replaced;
  runner_ = std::make_shared<FakeRunner>(fake_);
  start_runner();
  core_.replace_runner(runner_);
  check();
}

void Simulation::check() {
  EXPECT_EQ(core_.check(), "");
  core_.observe_state();
}

// What the engine thread does once it has read its inbox.
void Simulation::pass() {
  do_tier_jobs();
  core_.advance(now_);
  while (core_.submit_next(now_)) check();
  check();
  const TimePoint wake = std::min(core_.next_deadline(), now_ + kPoll);
  if (core_.n_in_flight() == 0) {
    // Asleep: the next command, a deadline, a stalled client.
    const bool tier_is_behind = tier_ != nullptr && (tier_->has_jobs() || !posted_.empty());
    EXPECT_TRUE(core_.n_sequences() == 0 || core_.any_stalled() || !core_.runner_up() ||
                tier_is_behind)
        << "nothing is computed although somebody waits";
    now_ = std::max(now_ + 50us, std::min(next_action_, wake));
    return;
  }
  const std::size_t n_before = outlet_.n_events;
  Result<StepResult> result = core_.wait_oldest(wake);
  met_.n_early_tokens += outlet_.n_events - n_before;
  check();
  if (core_.still_runs(result)) {
    ++met_.n_late_steps;
    return;
  }
  core_.apply_oldest(std::move(result), now_);
  check();
}

void Simulation::act(TimePoint at) {
  const std::uint64_t what = make_.pick(100);
  if (what < 60) {
    submit(at);
  } else if (what < 75) {
    if (all_.empty()) return;
    Tracked& t = *all_[make_.pick(all_.size())];
    if (!t.sink->done() && !t.cancelled_at) t.cancelled_at = at;
    core_.cancel(t.request.id);
  } else if (what < 90) {
    if (all_.empty()) return;
    Tracked& t = *all_[make_.pick(all_.size())];
    t.was_stalled = t.was_stalled || one_in(2);
    t.sink->set_stalled(t.was_stalled && one_in(2));
  } else if (!core_.runner_up() || one_in(20)) {
    replace();
  }
  check();
}

void Simulation::submit(TimePoint at) {
  auto t = std::make_unique<Tracked>();
  t->request = draw_request(at);
  const GenerationRequest& r = t->request;
  t->sink = std::make_shared<RequestRecorder>(r.n_answers());
  if (fake_.tells_early) t->sink->through = &outlet_;
  t->final_at.resize(r.n_answers());
  for (std::uint32_t i = 0; i < r.n_answers(); ++i)
    (*t->sink)[i].on_each = [this, t = t.get(), i] { note_event(*t, i); };
  const Status admissible = EngineCore::admissible(runner_->info(), options_, r, r.prompt);
  ASSERT_TRUE(admissible.ok()) << admissible.message();
  watch_.note_added(r, t->sink);
  core_.add(r, t->sink, at);
  ++met_.n_requests;
  all_.push_back(std::move(t));
}

void Simulation::note_event(Tracked& t, std::uint32_t sequence) {
  const Recorder& sink = (*t.sink)[sequence];
  if (!sink.done()) return;
  EXPECT_FALSE(t.final_at[sequence]);
  t.final_at[sequence] = now_;
  const bool late = sink.final_event().status.kind() == ErrorKind::kDeadline;
  if (late && core_.n_in_flight() > 0) ++met_.n_ends_beside_step;
}

// Nothing goes wrong any more: all are answered and everything is given back.
void Simulation::settle() {
  failures_ = false;
  next_action_ = TimePoint::max();
  for (auto& t : all_) t->sink->set_stalled(false);
  if (!core_.runner_up() || runner_gone_) replace();
  for (int i = 0;
       i < 100'000 && (core_.n_sequences() + core_.n_in_flight() > 0 || core_.owes_offloads());
       ++i)
    pass();
  pass();  // the runner is told what it may forget
  while (core_.n_in_flight() > 0) pass();
  const EngineStats stats = core_.stats();
  expect_idle(stats);
  EXPECT_EQ(stats.blocks_cached, watch_.n_stored());
  EXPECT_TRUE(runner_->live().empty());
  EXPECT_TRUE(runner_->attached().empty());
  for (const std::string& what : runner_->violations()) ADD_FAILURE() << what;
  EXPECT_EQ(stats.pauses, watch_.n_pauses);
  met_.n_pauses[options_.policy] += stats.pauses;
  met_.n_search_pauses += watch_.n_search_pauses;
  met_.n_evicted += watch_.n_evicted;
  met_.tier.blocks_offloaded += stats.tier.blocks_offloaded;
  met_.tier.blocks_onboarded += stats.tier.blocks_onboarded;
  met_.tier.paused_blocks_offloaded += stats.tier.paused_blocks_offloaded;
  met_.tier.paused_blocks_onboarded += stats.tier.paused_blocks_onboarded;
}

}  // namespace coxswain::batch::testing
