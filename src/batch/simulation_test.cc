// Laws 2 and 3 under everything that can happen at once. Under a clock that only the runner's steps and waiting move, a
// seed draws the runner's kind and cache, policies and limits; steps that are quick, stretched, slow or hang until
// somebody ends them, fail or lose the runner, and rows that fail; requests of one and of several sequences that begin
// alike, and beam searches, with deadlines, stop strings, priorities and retention; cancels, clients that do not read,
// runners that are replaced, also while a step hangs; a tier behind the cache that is slow, forgets, and gives back
// what is broken.
//
// Every sequence gets one final event, in time whatever the runner does; its text is what the request yields alone, or
// the beginning of it; the engine's invariants hold after each half of a pass, and what testing/step_watch.h looks at
// with each step; nobody waits without need; at the end everything is given back.
//
// COXSWAIN_SIMULATION_SEEDS=FIRST-LAST runs other seeds than those of every build (docs/fuzzing.md).

#include <algorithm>
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
#include "batch/testing/fake_tier.h"
#include "batch/testing/plain_beams.h"
#include "batch/testing/step_watch.h"

namespace coxswain::batch {
namespace {

using testing::alone;
using testing::expect_idle;
using testing::expected_output;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::FakeTier;
using testing::plain_beam_search;
using testing::PlainBeam;
using testing::Recorder;
using testing::RequestMaker;
using testing::RequestRecorder;
using testing::StepWatch;
using namespace std::chrono_literals;

constexpr auto kAnswerWithin = 20ms;
// How often the engine thread looks up from a running step.
constexpr auto kPoll = 10ms;

struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t last = 500;
};

Seeds seeds() {
  Seeds out;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  out.last = 100;
#endif
  const char* given = std::getenv("COXSWAIN_SIMULATION_SEEDS");
  if (given == nullptr) return out;
  char* dash = nullptr;
  out.first = std::strtoull(given, &dash, 10);
  EXPECT_EQ(*dash, '-') << "COXSWAIN_SIMULATION_SEEDS is FIRST-LAST";
  if (*dash == '-') out.last = std::strtoull(dash + 1, nullptr, 10);
  EXPECT_LE(out.first, out.last);
  return out;
}

// Each token is a letter.
class Letters final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view, bool) const override {
    return Status(Code::kUnimplemented, "nobody needs it here");
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string out;
    for (const TokenId id : ids) out += token_text(id);
    return out;
  }
  std::unique_ptr<Stream> stream(std::span<const TokenId>, bool) const override { return nullptr; }
  std::string token_text(TokenId id) const override {
    return {1, static_cast<char>('a' + id % 26)};
  }
  bool is_special(TokenId) const override { return false; }
};

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
  std::map<CapacityPolicy, std::uint64_t> n_pauses;
  std::uint64_t n_requests = 0;
  std::uint64_t n_late_steps = 0;        // waits that came back before their step
  std::uint64_t n_ends_beside_step = 0;  // deadlines answered while a step ran
  std::uint64_t n_stop_strings = 0;
  std::uint64_t n_silent = 0;  // clients that did not read for too long
  std::uint64_t n_replaced = 0;
  std::uint64_t n_evicted = 0;  // blocks
  std::map<Code, std::uint64_t> search_ends;
  std::uint64_t n_search_pauses = 0;
  std::uint64_t n_searches_cut = 0;  // that a stream had told of before they failed
  // Blocks that the tier has kept and brought back, and those of sequences that were paused.
  KvTierStats tier;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, Met& met)
      : make_(seed),
        met_(met),
        fake_(draw_fake()),
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

  void run() {
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

 private:
  bool one_in(std::uint64_t n) { return make_.pick(n) == 0; }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(make_.pick(high - low + 1));
  }
  Clock::duration time_between(std::uint32_t low_us, std::uint32_t high_us) {
    return std::chrono::microseconds(between(low_us, high_us));
  }

  FakeRunnerOptions draw_fake() {
    FakeRunnerOptions o;
    o.codec = std::make_shared<Letters>();
    o.eos_every = 15;
    o.capabilities.moves = !one_in(8);
    o.n_blocks = {between(14, 23)};
    if (one_in(8)) o.rope_switch_length = 20;
    o.rope_length_is_exact = one_in(2);
    if (one_in(2)) draw_beam_fake(o);
    switch (make_.pick(8)) {
      case 0:
        o.capabilities.look_ahead = false;
        break;
      case 1:
        o.n_blocks = {14, 12};
        o.windows = {0, 7};
        if (one_in(2)) {
          o.n_blocks = {14, 16};
          o.sink_tokens = 5;
        }
        break;
      case 2:
        o.capabilities = {};  // a stock runner
        o.n_blocks = {25};
        searches_ = false;
        break;
      case 3:
        o.capabilities.draft_tokens_max = 3;
        o.forces_tokens = one_in(2);
        break;
      case 4:
        o.capabilities.plans_chunks = false;
        searches_ = false;
        break;
      default:
        break;
    }
    if (one_in(2)) {
      o.capabilities.attachments = true;
      o.capabilities.attachment_bytes_max = std::uint64_t{between(18, 22)} << 10;
    }
    return o;
  }

  // Such a runner lists candidates, for searches.
  void draw_beam_fake(FakeRunnerOptions& o) {
    searches_ = true;
    o.capabilities.moves = o.capabilities.edits = true;
    o.capabilities.candidates_max = 12;
    o.about.eos_token_ids = {48, 49};
    o.few_candidates = one_in(8);
    if (one_in(2)) o.n_blocks = {between(20, 40)};
  }

  EngineOptions draw_options() {
    EngineOptions o;
    constexpr std::array kPolicies{CapacityPolicy::kMaxUtilization,
                                   CapacityPolicy::kAdaptive,
                                   CapacityPolicy::kGuaranteedNoEvict,
                                   CapacityPolicy::kStaticBatch};
    o.policy = kPolicies[make_.pick(kPolicies.size())];
    o.prefill_tokens_max = between(8, 23);
    o.prefill_tokens_min = between(0, 8);
    if (one_in(3)) o.batch_size_max = between(1, 5);
    if (one_in(3)) o.overtakes_max = between(0, 4);
    o.prefix_caching = !one_in(4);
    o.partial_reuse = !one_in(4);
    o.stall_timeout = 60ms;
    o.final_after_retire = one_in(5);
    if (one_in(3)) o.chunking = ChunkingPolicy::kEqualProgress;
    if (one_in(4)) o.chunk_tokens_unit = 8;
    if (one_in(6)) o.chunk_tokens_max = 5;
    if (one_in(6)) o.sequence_idle_max = 10ms;
    if (one_in(8)) o.target_itl = 2ms;
    if (one_in(8)) o.plan_rows_bytes_max = 600;
    if (one_in(8)) o.plan_new_bytes_max = 3000;
    o.prompts_first = one_in(8);
    o.dynamic_batch.tunes_batch_size = one_in(8);
    o.dynamic_batch.batch_sizes = {{3, 1}, {6, 4}};
    if (fake_.capabilities.attachments) {
      tier_ = std::make_shared<FakeTier>(FakeRunner(fake_).info(), between(10, 80));
      tier_->draw_fault = [this] { return draw_tier_fault(); };
      o.tier = tier_;
    }
    return o;
  }

  FakeTier::Fault draw_tier_fault() {
    tier_->took = std::chrono::microseconds(between(1, 50));
    switch (failures_ ? make_.pick(20) : 4) {
      case 0:
        return FakeTier::Fault::kLost;
      case 1:
        return FakeTier::Fault::kCut;
      case 2:
        return FakeTier::Fault::kBroken;
      default:
        return FakeTier::Fault::kNone;
    }
  }

  // The tier's thread, which may be behind.
  void do_tier_jobs() {
    while (tier_ != nullptr && !one_in(3) && tier_->do_one()) {
    }
    for (const EngineWork& work : std::exchange(posted_, {})) work(core_);
  }

  // Positions take time, so that it is known what a prompt takes.
  Clock::duration draw_step_time(const StepPlan& plan) {
    if (tier_ != nullptr && plan.rows.empty()) return time_between(10, 50);
    std::uint32_t n_positions = 0;
    for (const Row& row : plan.rows) n_positions += row.n_tokens;
    if (quick_) return time_between(300, 600) + n_positions * 80us;
    const std::uint64_t kind = failures_ ? make_.pick(1000) : 0;
    if (kind < 850) return time_between(100, 3'000);
    if (kind < 950) return time_between(3'000, 30'000);
    if (kind < 990) return time_between(30'000, 200'000);
    if (kind < 997) return time_between(500'000, 3'000'000);
    return time_between(3'000'000, 8'000'000);  // hangs, until it fails or the runner is replaced
  }

  void start_runner() {
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
  void replace() {
    for (const std::string& what : runner_->violations()) ADD_FAILURE() << what;
    ++fake_.epoch;
    ++met_.n_replaced;
    runner_ = std::make_shared<FakeRunner>(fake_);
    start_runner();
    core_.replace_runner(runner_);
    check();
  }

  void check() {
    EXPECT_EQ(core_.check(), "");
    core_.observe_state();
  }

  // What the engine thread does once it has read its inbox.
  void pass() {
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
    Result<StepResult> result = core_.wait_oldest(wake);
    if (core_.still_runs(result)) {
      ++met_.n_late_steps;
      return;
    }
    core_.apply_oldest(std::move(result), now_);
    check();
  }

  void act(TimePoint at) {
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

  GenerationRequest draw_request(TimePoint at) {
    GenerationRequest r = make_.make_some(24, 20);
    if (one_in(3)) r.queue_deadline = at + time_between(0, 150'000);
    if (one_in(2)) r.deadline = at + time_between(0, 500'000);
    if (one_in(4)) {
      r.stopping.stop_sequences = {{1, static_cast<char>('a' + make_.pick(26))}};
      if (one_in(2)) r.stopping.order = FinishOrder::kStopFirst;
    }
    if (one_in(6)) {
      r.retention.ranges = {{.token_begin = between(0, 3), .priority = between(0, 100)}};
      if (one_in(2)) r.retention.ranges[0].duration = std::chrono::milliseconds(between(1, 50));
      if (one_in(2)) r.retention.decode_priority = between(0, 100);
    }
    r.cache_prompt = !one_in(10);
    r.cache_generation = !one_in(10);
    if (searches_ && options_.batch_size_max > 1 && one_in(3)) make_search(r);
    return r;
  }

  // Where the cache holds as many beams.
  void make_search(GenerationRequest& request) {
    constexpr std::array kPenalties{-0.5F, 0.0F, 1.0F};
    GenerationRequest r = request;
    r.beams = {.width = between(2, std::min(6U, options_.batch_size_max)),
               .length_penalty = kPenalties[make_.pick(kPenalties.size())],
               .early_stopping = static_cast<std::int32_t>(make_.pick(3)),
               .diversity_rate = one_in(4) ? 0.5F : 0.0F};
    r.sampling.do_sample = false;
    r.more_seeds.clear();
    r.stopping.stop_sequences.clear();
    r.stopping.max_new_tokens = std::min(r.stopping.max_new_tokens, between(4, 12));
    if (one_in(4)) r.stopping.end_ids = {3, 17, 30};
    r.n_beam_answers = between(1, r.beams.width);
    r.stream_beams = one_in(3);
    if (EngineCore::admissible(runner_->info(), options_, r, r.prompt).ok()) request = std::move(r);
  }

  void submit(TimePoint at) {
    auto t = std::make_unique<Tracked>();
    t->request = draw_request(at);
    const GenerationRequest& r = t->request;
    t->sink = std::make_shared<RequestRecorder>(r.n_answers());
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

  void note_event(Tracked& t, std::uint32_t sequence) {
    const Recorder& sink = (*t.sink)[sequence];
    if (!sink.done()) return;
    EXPECT_FALSE(t.final_at[sequence]);
    t.final_at[sequence] = now_;
    const bool late = sink.final_event().status.kind() == ErrorKind::kDeadline;
    if (late && core_.n_in_flight() > 0) ++met_.n_ends_beside_step;
  }

  // Nothing goes wrong any more: all are answered and everything is given back.
  void settle() {
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

  void check_answer(const Tracked& t) {
    ASSERT_TRUE(t.sink->done());
    const bool searched = t.request.beams.width > 1;
    if (searched) check_search(t);
    for (std::uint32_t i = 0; i < t.sink->size(); ++i) {
      if (!searched) check_sequence(t, i);
      check_end(t, i);
    }
  }

  void check_search(const Tracked& t) {
    const Status status = (*t.sink)[0].final_event().status;
    ++met_.search_ends[status.code()];
    if (!status.ok() && (*t.sink)[0].n_tokens() == 0) return;
    std::vector<std::vector<PlainBeam>> told;
    const std::vector<PlainBeam> found = plain_beam_search(fake_, t.request, &told);
    for (std::size_t i = 0; i < t.sink->size(); ++i) {
      const Recorder& sink = (*t.sink)[i];
      if (status.ok() && i >= found.size()) {  // nearly all tokens are forbidden
        EXPECT_EQ(sink.final_event().status.code(), Code::kNotFound);
        continue;
      }
      EXPECT_EQ(sink.final_event().status.code(), status.code());
      if (status.ok()) {
        EXPECT_EQ(sink.ids(), found[i].ids);
        EXPECT_EQ(sink.final_event().finish->reason,
                  found[i].at_end_token ? FinishReason::kEosToken : FinishReason::kLength);
        continue;
      }
      // What a stream told last was the best of some step.
      EXPECT_TRUE(t.request.stream_beams);
      ++met_.n_searches_cut;
      const std::vector<TokenId> ids = sink.ids();
      EXPECT_TRUE(ids.empty() || std::ranges::any_of(told, [&](const auto& best) {
                    return i < best.size() && best[i].ids == ids;
                  }));
    }
  }

  void check_sequence(const Tracked& t, std::uint32_t i) {
    const auto expected = expected_output(fake_, alone(t.request, i));
    const Recorder& sink = (*t.sink)[i];
    const TokenEvent event = sink.final_event();
    if (event.status.ok()) {
      sink.expect_complete(expected, t.request.prompt_logprobs);
      EXPECT_EQ(event.finish->generated_text, expected.text);
      if (expected.reason == FinishReason::kStopSequence) ++met_.n_stop_strings;
    } else {
      sink.expect_beginning(expected);
    }
  }

  void check_end(const Tracked& t, std::uint32_t i) {
    const TokenEvent event = (*t.sink)[i].final_event();
    ++met_.ends[{event.status.code(), event.status.kind()}];
    EXPECT_EQ(event.status.ok(), event.status.message().empty());
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
  bool searches_ = false;     // the runner lists candidates
  bool runner_gone_ = false;  // takes no plan any more
  std::shared_ptr<FakeTier> tier_;
  std::vector<EngineWork> posted_;
  FakeRunnerOptions fake_;
  EngineOptions options_;
  const bool quick_;  // no step is slow, and more happens meanwhile
  TimePoint now_ = TimePoint(1h);
  std::shared_ptr<FakeRunner> runner_;
  StepWatch watch_;
  EngineCore core_;
  TimePoint next_action_{};
  std::vector<std::unique_ptr<Tracked>> all_;
};

// Everything was met, or the test tests nothing.
void expect_all_met(const Met& met, std::uint64_t n_seeds) {
  const auto n_ends = [&](Code code, ErrorKind kind) {
    const auto it = met.ends.find({code, kind});
    return it == met.ends.end() ? 0 : it->second;
  };
  EXPECT_GT(n_ends(Code::kOk, ErrorKind::kNone), 30 * n_seeds);
  EXPECT_GT(n_ends(Code::kCancelled, ErrorKind::kNone), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kDeadlineExceeded, ErrorKind::kDeadline), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kDeadlineExceeded, ErrorKind::kQueueTimeout), 10 * n_seeds);
  EXPECT_GT(n_ends(Code::kUnavailable, ErrorKind::kGeneration), n_seeds);
  EXPECT_GT(n_ends(Code::kInternal, ErrorKind::kGeneration), n_seeds);
  EXPECT_GT(met.n_ends_beside_step, 10 * n_seeds);
  EXPECT_GT(met.n_late_steps, 100 * n_seeds);
  EXPECT_GT(met.n_stop_strings, n_seeds);
  EXPECT_GT(met.n_silent, n_seeds / 4);
  EXPECT_GT(met.n_pauses.at(CapacityPolicy::kMaxUtilization), n_seeds);
  EXPECT_GT(met.n_pauses.at(CapacityPolicy::kAdaptive), n_seeds);
  EXPECT_GT(met.n_replaced, n_seeds);
  EXPECT_GT(met.n_evicted, 10 * n_seeds);
  for (const Code code :
       {Code::kOk, Code::kCancelled, Code::kDeadlineExceeded, Code::kUnavailable, Code::kInternal})
    EXPECT_GT(met.search_ends.at(code), n_seeds / 4) << static_cast<int>(code);
  EXPECT_GT(met.n_search_pauses, n_seeds);
  EXPECT_GT(met.n_searches_cut, n_seeds / 4);
  EXPECT_GT(met.tier.blocks_offloaded, n_seeds);
  EXPECT_GT(met.tier.blocks_onboarded, n_seeds);
  EXPECT_GT(met.tier.paused_blocks_offloaded, n_seeds / 4);
  EXPECT_GT(met.tier.paused_blocks_onboarded, n_seeds / 4);
}

TEST(Simulation, EveryAnswerIsRightAndInTime) {
  const Seeds range = seeds();
  Met met;
  for (std::uint64_t seed = range.first; seed <= range.last; ++seed) {
    const std::string replay = std::to_string(seed) + "-" + std::to_string(seed);
    SCOPED_TRACE("to replay: COXSWAIN_SIMULATION_SEEDS=" + replay + " --gtest_filter=Simulation.*");
    Simulation(seed, met).run();
    if (::testing::Test::HasFailure()) return;
  }
  std::uint64_t n_searches = 0;
  for (const auto& [code, n] : met.search_ends) n_searches += n;
  std::printf(
      "seeds %llu to %llu: %llu requests, %llu of them beam searches (%llu pauses), %llu deadlines "
      "answered "
      "beside a step\n",
      static_cast<unsigned long long>(range.first),
      static_cast<unsigned long long>(range.last),
      static_cast<unsigned long long>(met.n_requests),
      static_cast<unsigned long long>(n_searches),
      static_cast<unsigned long long>(met.n_search_pauses),
      static_cast<unsigned long long>(met.n_ends_beside_step));
  std::printf(
      "tier: %llu blocks kept, %llu of paused sequences; %llu brought back, %llu for these\n",
      static_cast<unsigned long long>(met.tier.blocks_offloaded),
      static_cast<unsigned long long>(met.tier.paused_blocks_offloaded),
      static_cast<unsigned long long>(met.tier.blocks_onboarded),
      static_cast<unsigned long long>(met.tier.paused_blocks_onboarded));
  const std::uint64_t n_seeds = range.last - range.first + 1;
  if (n_seeds >= 50) expect_all_met(met, n_seeds);
}

}  // namespace
}  // namespace coxswain::batch
