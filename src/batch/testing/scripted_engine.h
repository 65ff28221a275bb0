#pragma once
// An engine for tests: answers each submission from a script, at once on the submitting thread, or
// holds it until told.

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "batch/engine.h"

namespace coxswain::batch {

// What one sequence does. Without tokens and error the sequence is held.
struct ScriptedSequence {
  std::vector<OutputToken> tokens;
  std::vector<PromptToken> prompt;
  FinishReason finish = FinishReason::kLength;
  std::string text;  // empty: the texts of the tokens that are not special
  std::size_t stop_text_begin = 0;
  Status refusal;  // of submit()
  Status error;    // instead of the finish
  bool hold = false;
};

class ScriptedEngine final : public Engine {
 public:
  // One for each sequence; the last one is used again, and without any submissions fail.
  std::deque<ScriptedSequence> script;
  Status health;
  EngineStats statistics;

  Status submit(GenerationRequest request, std::shared_ptr<TokenSink> sink) override {
    std::vector<ScriptedSequence> sequences(request.n_sequences());
    {
      base::MutexLock lock(mu_);
      for (ScriptedSequence& sequence : sequences) {
        if (script.empty()) return Status(Code::kInternal, "the script of the engine is empty");
        sequence = script.front();
        if (script.size() > 1) script.pop_front();
        if (!sequence.refusal.ok()) return sequence.refusal;
      }
      submitted_.push_back(request);
      for (std::uint32_t i = 0; i < sequences.size(); ++i) {
        if (sequences[i].hold) held_[{request.id, i}] = sink;
      }
    }
    changed_.notify_all();
    for (std::uint32_t i = 0; i < sequences.size(); ++i) {
      if (!sequences[i].hold) play(sequences[i], i, *sink);
    }
    return {};
  }

  void cancel(RequestId id) override {
    std::vector<std::pair<std::uint32_t, std::shared_ptr<TokenSink>>> ended;
    {
      base::MutexLock lock(mu_);
      cancelled_.insert(id);
      auto next = held_.lower_bound({id, 0});
      while (next != held_.end() && next->first.first == id) {
        ended.emplace_back(next->first.second, next->second);
        next = held_.erase(next);
      }
    }
    changed_.notify_all();
    for (const auto& [sequence, sink] : ended) {
      TokenEvent event;
      event.sequence = sequence;
      event.final = true;
      event.status = Status(Code::kCancelled, "cancelled");
      sink->on_event(std::move(event));
    }
  }

  void post(EngineWork) override {}  // there is no core that it could be done on

  EngineStats stats() const override {
    base::MutexLock lock(mu_);
    return statistics;
  }
  Status healthy() const override {
    base::MutexLock lock(mu_);
    return health;
  }
  bool drain(std::chrono::milliseconds) override { return true; }
  void replace_runner(std::shared_ptr<StepRunner> runner) override {
    {
      base::MutexLock lock(mu_);
      runners_.push_back(std::move(runner));
      health = Status();
      statistics.runner_up = true;
    }
    changed_.notify_all();
  }

  // Plays `sequence` into the held one that was submitted first.
  void play_held(const ScriptedSequence& sequence) {
    std::pair<std::pair<RequestId, std::uint32_t>, std::shared_ptr<TokenSink>> held;
    {
      base::MutexLock lock(mu_);
      held = *held_.begin();
      if (!sequence.hold) held_.erase(held_.begin());
    }
    play(sequence, held.first.second, *held.second);
  }
  std::shared_ptr<TokenSink> held_sink() {
    base::MutexLock lock(mu_);
    return held_.begin()->second;
  }

  void wait_for_submissions(std::size_t n) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return submitted_.size() >= n; });
  }
  void wait_for_cancels(std::size_t n) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return cancelled_.size() >= n; });
  }
  void wait_for_runners(std::size_t n) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return runners_.size() >= n; });
  }
  std::vector<GenerationRequest> submitted() const {
    base::MutexLock lock(mu_);
    return submitted_;
  }
  void set_state(Status state, bool runner_up) {
    base::MutexLock lock(mu_);
    health = std::move(state);
    statistics.runner_up = runner_up;
  }

 private:
  static void play(const ScriptedSequence& sequence, std::uint32_t index, TokenSink& sink) {
    const TimePoint now = Clock::now();
    std::string text = sequence.text;
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      TokenEvent event;
      event.sequence = index;
      event.tokens = {sequence.tokens[i]};
      if (sequence.text.empty() && !sequence.tokens[i].special) text += sequence.tokens[i].text;
      if (i == 0) event.prompt = sequence.prompt;
      event.queued_at = event.scheduled_at = event.first_token_at = now;
      if (i + 1 == sequence.tokens.size() && sequence.error.ok() && !sequence.hold) {
        event.final = true;
        const std::size_t end =
            sequence.finish == FinishReason::kStopSequence ? sequence.stop_text_begin : text.size();
        event.finish = SequenceFinish{sequence.finish, text, end};
      }
      sink.on_event(std::move(event));
    }
    if (sequence.error.ok()) return;
    TokenEvent event;
    event.sequence = index;
    event.final = true;
    event.status = sequence.error;
    sink.on_event(std::move(event));
  }

  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<GenerationRequest> submitted_ GUARDED_BY(mu_);
  std::set<RequestId> cancelled_ GUARDED_BY(mu_);
  // By request and sequence.
  std::map<std::pair<RequestId, std::uint32_t>, std::shared_ptr<TokenSink>> held_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<StepRunner>> runners_ GUARDED_BY(mu_);
};

}  // namespace coxswain::batch
