// Laws 2 and 3 where steps take any time: under a clock that only the runner's steps and waiting move, a seed draws
// steps that are quick, stretched, slow or hang until somebody ends them, fail or lose the runner; requests with
// deadlines, cancels, clients that do not read; runners that are replaced, also while a step hangs.
//
// Every request gets one final event; a deadline, a queue timeout and a cancel are answered within 20 ms, whatever the
// runner does; tokens are the beginning of what the request produces alone; invariants hold after each half of a pass.
//
// COXSWAIN_FAULT_SEEDS=FIRST-LAST runs other seeds than those of every build (docs/fuzzing.md).

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::alone;
using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::Recorder;
using testing::RequestMaker;
using testing::RequestRecorder;
using namespace std::chrono_literals;

constexpr auto kAnswerWithin = 20ms;
// How often the engine thread looks up from a running step.
constexpr auto kPoll = 10ms;
constexpr int kActions = 250;

struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t last = 500;
};

Seeds seeds() {
  Seeds out;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  out.last = 100;
#endif
  const char* given = std::getenv("COXSWAIN_FAULT_SEEDS");
  if (given == nullptr) return out;
  char* dash = nullptr;
  out.first = std::strtoull(given, &dash, 10);
  EXPECT_EQ(*dash, '-') << "COXSWAIN_FAULT_SEEDS is FIRST-LAST";
  if (*dash == '-') out.last = std::strtoull(dash + 1, nullptr, 10);
  EXPECT_LE(out.first, out.last);
  return out;
}

struct Tracked {
  GenerationRequest request;
  std::shared_ptr<RequestRecorder> sink;
  std::vector<std::optional<TimePoint>> final_at;  // per sequence
  std::optional<TimePoint> cancelled_at;
  bool was_stalled = false;
};

// What the runs of all seeds met.
struct Met {
  std::map<std::pair<Code, ErrorKind>, std::uint64_t> ends;
  std::uint64_t n_requests = 0;
  std::uint64_t n_late_steps = 0;        // waits that came back before their step
  std::uint64_t n_ends_beside_step = 0;  // deadlines answered while a step ran
  std::uint64_t n_silent = 0;            // clients that did not read for too long
  std::uint64_t n_replaced = 0;
  std::uint64_t n_pauses = 0;
};

class SlowRun {
 public:
  SlowRun(std::uint64_t seed, Met& met)
      : make_(seed),
        met_(met),
        fake_(draw_fake()),
        options_(draw_options()),
        driver_(fake_, options_) {
    start_runner();
  }

  void run() {
    next_action_ = driver_.now;
    for (int i = 0; i < kActions;) {
      for (; i < kActions && next_action_ <= driver_.now; ++i) {
        act(next_action_);
        next_action_ += std::chrono::microseconds(make_.pick(16'000));
      }
      pass();
      if (::testing::Test::HasFailure()) return;
    }
    settle();
    for (const auto& t : all_) check_answer(*t);
  }

 private:
  FakeRunnerOptions draw_fake() {
    FakeRunnerOptions o;
    o.eos_every = 15;
    o.capabilities.moves = true;
    o.n_blocks = {static_cast<std::uint32_t>(14 + make_.pick(10))};
    switch (make_.pick(6)) {
      case 0:
        o.capabilities.look_ahead = false;
        break;
      case 1:
        o.n_blocks = {14, 12};
        o.windows = {0, 7};
        break;
      case 2:
        o.capabilities = {};  // a stock runner
        o.n_blocks = {25};
        break;
      case 3:
        o.capabilities.draft_tokens_max = 3;
        o.forces_tokens = make_.pick(2) == 0;
        break;
      default:
        break;
    }
    return o;
  }

  EngineOptions draw_options() {
    EngineOptions o;
    o.prefill_tokens_max = static_cast<std::uint32_t>(8 + make_.pick(16));
    o.prefix_caching = make_.pick(4) != 0;
    o.stall_timeout = 60ms;
    o.final_after_retire = make_.pick(5) == 0;
    if (make_.pick(3) == 0) o.chunking = ChunkingPolicy::kEqualProgress;
    if (make_.pick(4) == 0) o.chunk_tokens_unit = 8;
    if (make_.pick(6) == 0) o.chunk_tokens_max = 5;
    if (make_.pick(6) == 0) o.sequence_idle_max = 10ms;
    o.prompts_first = make_.pick(8) == 0;
    o.dynamic_batch.tunes_batch_size = make_.pick(8) == 0;
    o.dynamic_batch.batch_sizes = {{3, 1}, {6, 4}};
    constexpr std::array kPolicies{CapacityPolicy::kMaxUtilization,
                                   CapacityPolicy::kAdaptive,
                                   CapacityPolicy::kGuaranteedNoEvict,
                                   CapacityPolicy::kStaticBatch};
    const std::uint64_t dice = make_.pick(8);
    o.policy = kPolicies[dice < 4 ? 0 : dice - 4];
    return o;
  }

  Clock::duration draw_step_time() {
    const std::uint64_t kind = failures_ ? make_.pick(1000) : 0;
    const auto between = [this](std::uint64_t low_us, std::uint64_t high_us) {
      return std::chrono::microseconds(low_us + make_.pick(high_us - low_us));
    };
    if (kind < 850) return between(100, 3'000);
    if (kind < 950) return between(3'000, 30'000);
    if (kind < 990) return between(30'000, 200'000);
    if (kind < 997) return between(500'000, 3'000'000);
    return between(3'000'000, 8'000'000);  // hangs, until it fails or the runner is replaced
  }

  void start_runner() {
    runner_gone_ = false;
    driver_.runner->set_clock(&driver_.now);
    driver_.runner->step_time = [this](std::uint64_t) { return draw_step_time(); };
    driver_.runner->submit_failure = [this](std::uint64_t) -> Status {
      runner_gone_ = runner_gone_ || (failures_ && make_.pick(1000) == 0);
      return runner_gone_ ? Status(Code::kUnavailable, "the runner is gone") : Status();
    };
    driver_.runner->step_failure = [this](std::uint64_t) -> Status {
      if (!failures_) return {};
      switch (make_.pick(250)) {
        case 0:
          return {Code::kUnavailable, "the runner died"};
        case 1:
          return internal_error("the plan broke a rule");
        default:
          return {};
      }
    };
    driver_.runner->row_failure = [this](std::uint64_t, const SequenceSpec&) -> Status {
      if (!failures_ || make_.pick(300) != 0) return {};
      return {Code::kInternal, "logits are not finite"};
    };
  }

  void replace() {
    for (const std::string& what : driver_.runner->violations()) ADD_FAILURE() << what;
    ++fake_.epoch;
    ++met_.n_replaced;
    driver_.runner = std::make_shared<FakeRunner>(fake_);
    start_runner();
    driver_.core->replace_runner(driver_.runner);
    driver_.check();
  }

  // What the engine thread does once it has read its inbox.
  void pass() {
    EngineCore& core = *driver_.core;
    core.advance(driver_.now);
    while (core.submit_next(driver_.now)) driver_.check();
    driver_.check();
    const TimePoint wake = std::min(core.next_deadline(), driver_.now + kPoll);
    if (core.n_in_flight() == 0) {
      // Asleep: the next command, a deadline, a stalled client.
      driver_.now = std::max(driver_.now + 50us, std::min(next_action_, wake));
      return;
    }
    Result<StepResult> result = core.wait_oldest(wake);
    if (core.still_runs(result)) {
      ++met_.n_late_steps;
      return;
    }
    core.apply_oldest(std::move(result), driver_.now);
    driver_.check();
  }

  void act(TimePoint at) {
    const std::uint64_t what = make_.pick(100);
    if (what < 60) {
      submit(at);
    } else if (what < 75) {
      if (all_.empty()) return;
      Tracked& t = *all_[make_.pick(all_.size())];
      if (!t.sink->done() && !t.cancelled_at) t.cancelled_at = at;
      driver_.core->cancel(t.request.id);
    } else if (what < 90) {
      if (all_.empty()) return;
      Tracked& t = *all_[make_.pick(all_.size())];
      t.was_stalled = t.was_stalled || make_.pick(2) == 0;
      t.sink->set_stalled(t.was_stalled && make_.pick(2) == 0);
    } else if (!driver_.core->runner_up() || make_.pick(20) == 0) {
      replace();
    }
    driver_.check();
  }

  void submit(TimePoint at) {
    auto t = std::make_unique<Tracked>();
    t->request = make_.make_some(24, 20);
    GenerationRequest& r = t->request;
    if (make_.pick(3) == 0) r.queue_deadline = at + std::chrono::microseconds(make_.pick(150'000));
    if (make_.pick(2) == 0) r.deadline = at + std::chrono::microseconds(make_.pick(500'000));
    t->sink = std::make_shared<RequestRecorder>(r.n_sequences());
    t->final_at.resize(r.n_sequences());
    for (std::uint32_t i = 0; i < r.n_sequences(); ++i)
      (*t->sink)[i].on_each = [this, t = t.get(), i] { note_event(*t, i); };
    ASSERT_TRUE(EngineCore::admissible(driver_.runner->info(), options_, r, r.prompt).ok());
    driver_.core->add(r, t->sink, at);
    ++met_.n_requests;
    all_.push_back(std::move(t));
  }

  void note_event(Tracked& t, std::uint32_t sequence) {
    const Recorder& sink = (*t.sink)[sequence];
    if (!sink.done()) return;
    EXPECT_FALSE(t.final_at[sequence]);
    t.final_at[sequence] = driver_.now;
    const bool late = sink.final_event().status.kind() == ErrorKind::kDeadline;
    if (late && driver_.core->n_in_flight() > 0) ++met_.n_ends_beside_step;
  }

  // Nothing goes wrong any more: all are answered and everything is given back.
  void settle() {
    failures_ = false;
    next_action_ = TimePoint::max();
    for (auto& t : all_) t->sink->set_stalled(false);
    if (!driver_.core->runner_up() || runner_gone_) replace();
    for (int i = 0; i < 100'000 && (driver_.core->n_sequences() + driver_.core->n_in_flight() > 0);
         ++i)
      pass();
    pass();  // the runner is told what it may forget
    while (driver_.core->n_in_flight() > 0) pass();
    driver_.expect_idle();
    EXPECT_TRUE(driver_.runner->live().empty());
    met_.n_pauses += driver_.core->stats().pauses;
  }

  void check_answer(const Tracked& t) {
    ASSERT_TRUE(t.sink->done());
    for (std::uint32_t i = 0; i < t.sink->size(); ++i) check_sequence(t, i);
  }

  void check_sequence(const Tracked& t, std::uint32_t i) {
    const auto expected = expected_output(fake_, alone(t.request, i));
    const Recorder& sink = (*t.sink)[i];
    const TokenEvent event = sink.final_event();
    ++met_.ends[{event.status.code(), event.status.kind()}];
    if (event.status.ok()) {
      sink.expect_complete(expected, t.request.prompt_logprobs);
    } else {
      sink.expect_beginning(expected);
      EXPECT_FALSE(event.status.message().empty());
    }
    if (event.status.code() == Code::kCancelled) {
      EXPECT_TRUE(t.cancelled_at || t.was_stalled);
      if (!t.cancelled_at) ++met_.n_silent;
    }
    check_time(t, event, *t.final_at[i]);
  }

  void check_time(const Tracked& t, const TokenEvent& event, TimePoint final_at) const {
    const GenerationRequest& r = t.request;
    const ErrorKind kind = event.status.kind();
    // Never too early ...
    if (kind == ErrorKind::kDeadline) {
      EXPECT_GE(final_at, *r.deadline);
    }
    if (kind == ErrorKind::kQueueTimeout) {
      EXPECT_GE(final_at, *r.queue_deadline);
    }
    // ... and, but for the strict order, never late.
    if (options_.final_after_retire) return;
    if (r.deadline) {
      EXPECT_LE(final_at - *r.deadline, kAnswerWithin);
    }
    if (t.cancelled_at) {
      EXPECT_LE(final_at - *t.cancelled_at, kAnswerWithin);
    }
    if (kind == ErrorKind::kQueueTimeout) {
      EXPECT_LE(final_at - *r.queue_deadline, kAnswerWithin);
    } else if (r.queue_deadline && event.scheduled_at > event.queued_at) {
      EXPECT_LE(event.scheduled_at - *r.queue_deadline, kAnswerWithin);
    }
  }

  RequestMaker make_;
  Met& met_;
  bool failures_ = true;
  bool runner_gone_ = false;  // takes no plan any more
  FakeRunnerOptions fake_;
  EngineOptions options_;
  CoreDriver driver_;
  TimePoint next_action_{};
  std::vector<std::unique_ptr<Tracked>> all_;
};

TEST(SlowSteps, EveryAnswerIsRightAndInTime) {
  const Seeds range = seeds();
  Met met;
  std::uint64_t n_seeds = 0;
  for (std::uint64_t seed = range.first; seed <= range.last; ++seed, ++n_seeds) {
    SCOPED_TRACE("COXSWAIN_FAULT_SEEDS=" + std::to_string(seed) + "-" + std::to_string(seed));
    SlowRun(seed, met).run();
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("seeds %llu to %llu: %llu requests, %llu deadlines answered beside a step\n",
              static_cast<unsigned long long>(range.first),
              static_cast<unsigned long long>(range.last),
              static_cast<unsigned long long>(met.n_requests),
              static_cast<unsigned long long>(met.n_ends_beside_step));
  // Everything was met, or the test tests nothing.
  if (n_seeds < 50) return;
  const auto n_ends = [&](Code code, ErrorKind kind) { return met.ends[{code, kind}]; };
  EXPECT_GT(n_ends(Code::kOk, ErrorKind::kNone), 30 * n_seeds);
  EXPECT_GT(n_ends(Code::kCancelled, ErrorKind::kNone), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kDeadlineExceeded, ErrorKind::kDeadline), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kDeadlineExceeded, ErrorKind::kQueueTimeout), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kUnavailable, ErrorKind::kGeneration), n_seeds);
  EXPECT_GT(n_ends(Code::kInternal, ErrorKind::kGeneration), n_seeds);
  EXPECT_GT(met.n_ends_beside_step, 10 * n_seeds);
  EXPECT_GT(met.n_late_steps, 100 * n_seeds);
  EXPECT_GT(met.n_silent, n_seeds / 4);
  EXPECT_GT(met.n_pauses, 5 * n_seeds);
  EXPECT_GT(met.n_replaced, n_seeds);
}

}  // namespace
}  // namespace coxswain::batch
