#pragma once
// WordRunner: a shard that computes nothing. Each step takes as long as it is told, all tokens are the same word, and
// it remembers when it was at work and when each sequence got its first token.
//
// A sequence is known by its seed. Thread rule: any thread; steps come one after the other.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <coxswain/step_runner.h>

#include "base/mutex.h"
#include "batch/testing/timed_runner.h"

namespace coxswain::bench {

class WordRunner final : public StepRunner {
 public:
  explicit WordRunner(std::uint32_t vocab_size) : vocab_size_(vocab_size) {}

  void set_step_time(Clock::duration d) { step_time_ = d; }
  // Of the time until `when`, how much it was at work.
  Clock::duration worked_until(TimePoint when) const {
    const base::MutexLock lock(mu_);
    const auto next = std::ranges::upper_bound(work_, when, {}, &Work::begin);
    if (next == work_.begin()) return {};
    const Work& last = *std::prev(next);
    return last.worked_before + std::min(when, last.end) - last.begin;
  }
  // When it gave the sequence of that seed its first token, and forgets it. REQUIRES: it did.
  TimePoint take_first_token_time(std::uint64_t seed) {
    const base::MutexLock lock(mu_);
    const auto found = first_tokens_.find(seed);
    const TimePoint out = found->second;
    first_tokens_.erase(found);
    return out;
  }

  RunnerInfo info() const override {
    RunnerInfo out = timed_.info();
    out.engine_version = "bench";
    out.vocab_size = vocab_size_;
    out.max_position_embeddings = 1U << 20;
    return out;
  }
  Result<StepTicket> submit(StepPlan plan) override {
    const StepTicket ticket{plan.step};
    const base::MutexLock lock(mu_);
    submitted_.emplace_back(std::move(plan), Clock::now());
    return ticket;
  }
  Result<StepResult> wait(StepTicket ticket, TimePoint until) override {
    Result<StepResult> out = simulate(ticket, until);
    TimePoint end;
    {
      const base::MutexLock lock(mu_);
      end = clock_;
    }
    std::this_thread::sleep_until(end);
    const base::MutexLock lock(mu_);
    if (out.ok()) note(*out);
    return out;
  }
  Status healthy() override { return {}; }

 private:
  struct Work {
    TimePoint begin;
    TimePoint end;
    Clock::duration worked_before{};
  };

  Result<StepResult> simulate(StepTicket ticket, TimePoint until) {
    const base::MutexLock lock(mu_);
    for (auto& [plan, at] : std::exchange(submitted_, {})) begin(std::move(plan), at);
    clock_ = Clock::now();
    return timed_.wait(ticket, until);
  }
  void begin(StepPlan plan, TimePoint at) REQUIRES(mu_) {
    for (const SequenceId id : plan.dropped) seeds_.erase(static_cast<std::uint64_t>(id));
    for (const SequenceSpec& spec : plan.new_sequences)
      seeds_[static_cast<std::uint64_t>(spec.id)] = spec.sampling.seed;
    clock_ = at;
    begin_ = std::max(begin_, at);
    static_cast<void>(timed_.submit(std::move(plan)));
  }
  void note(StepResult& result) REQUIRES(mu_) {
    std::vector<std::uint64_t> first;  // seeds of those who get their first token
    for (SequenceResult& sequence : result.sequences) {
      for (OutputToken& token : sequence.tokens) {
        token.id = kToken;
        token.text = " word";
      }
      const auto seed = seeds_.find(static_cast<std::uint64_t>(sequence.sequence));
      if (sequence.tokens.empty() || seed == seeds_.end()) continue;
      first.push_back(seed->second);
      seeds_.erase(seed);
    }
    const TimePoint now = Clock::now();
    Clock::duration before{};
    if (!work_.empty())
      before = work_.back().worked_before + (work_.back().end - work_.back().begin);
    work_.push_back({begin_, now, before});
    begin_ = now;
    for (const std::uint64_t seed : first) first_tokens_[seed] = now;
  }

  static constexpr TokenId kToken = 100;
  static constexpr std::uint32_t kBlocks = 1U << 20;

  const std::uint32_t vocab_size_;
  mutable base::Mutex mu_;
  // What is known of them is written down while the first of them takes its time, as a runner with threads of its own
  // would: submit() costs whoever calls it nothing.
  std::vector<std::pair<StepPlan, TimePoint>> submitted_ GUARDED_BY(mu_);
  TimePoint clock_ GUARDED_BY(mu_){};
  std::atomic<Clock::duration> step_time_{Clock::duration::zero()};
  TimePoint begin_ GUARDED_BY(mu_){};  // of the next step's work, at the earliest
  std::vector<Work> work_ GUARDED_BY(mu_);
  // Of sequences without a token so far.
  std::unordered_map<std::uint64_t, std::uint64_t> seeds_ GUARDED_BY(mu_);
  std::unordered_map<std::uint64_t, TimePoint> first_tokens_ GUARDED_BY(mu_);  // by seed
  batch::testing::TimedRunner timed_{kBlocks,
                                     clock_,
                                     [this](const batch::StepShape&) { return step_time_.load(); },
                                     [](const SequenceSpec&) { return ~0U; }};
};

}  // namespace coxswain::bench
