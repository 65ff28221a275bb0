#pragma once
// Recorder: a TokenSink that keeps what a client would see and checks the rules of the event stream.
// RequestRecorder: one for each sequence of a request.
//
// Thread rule: events come from the engine thread; everything else may be called from any thread.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "batch/engine.h"
#include "batch/sequence_outputs.h"
#include "batch/testing/fake_runner.h"

namespace coxswain::batch::testing {

class Recorder final : public TokenSink {
 public:
  // Of a request that has had `before` elsewhere.
  explicit Recorder(const Progress& before = {})
      : n_before_(before.ids.size()), cumulative_logprob_(before.cumulative_logprob) {}
  void on_event(TokenEvent event) override {
    std::function<void()> call;
    {
      base::MutexLock lock(mu_);
      EXPECT_FALSE(final_) << "an event after the final one";
      const std::size_t n = event.tokens.size();
      if (event.whole) {
        tokens_.clear();
        cumulative_logprob_ = 0.0;
      }
      if (!event.prompt.empty()) {
        EXPECT_TRUE(prompt_.empty() && tokens_.empty()) << "prompt tokens come once and first";
        prompt_ = std::move(event.prompt);
      }
      add_outputs(event, n);
      for (OutputToken& t : event.tokens) tokens_.push_back(std::move(t));
      if (n > 0) {
        for (std::size_t i = tokens_.size() - n; i < tokens_.size(); ++i)
          cumulative_logprob_ += static_cast<double>(tokens_[i].logprob);
        EXPECT_EQ(event.cumulative_logprob, cumulative_logprob_);
        check_times(event);
      }
      if (event.final) {
        EXPECT_EQ(event.finish.has_value() || event.parked != nullptr, event.status.ok())
            << "a final event finishes, parks or fails";
        EXPECT_EQ(event.n_generated, n_before_ + tokens_.size());
        event.tokens.clear();
        final_ = std::move(event);
      } else {
        EXPECT_TRUE(event.status.ok() && !event.finish && n > 0) << "an event without tokens";
      }
      call = on_each;
    }
    changed_.notify_all();
    if (call) call();
  }
  bool stalled() const override {
    base::MutexLock lock(mu_);
    return stalled_;
  }

  void set_stalled(bool stalled) {
    base::MutexLock lock(mu_);
    stalled_ = stalled;
  }
  void wait_final() {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return final_.has_value(); });
  }
  // The status of the final event, once it has come.
  Status wait() {
    wait_final();
    return final_event().status;
  }
  // Until so many tokens have come, or the final event.
  void wait_tokens(std::size_t n) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return final_.has_value() || tokens_.size() >= n; });
  }
  bool done() const {
    base::MutexLock lock(mu_);
    return final_.has_value();
  }
  TokenEvent final_event() const {
    base::MutexLock lock(mu_);
    return final_.value_or(TokenEvent{});
  }
  std::optional<SequenceFinish> finish() const { return final_event().finish; }
  std::vector<OutputToken> tokens() const {
    base::MutexLock lock(mu_);
    return tokens_;
  }
  std::size_t n_tokens() const {
    base::MutexLock lock(mu_);
    return tokens_.size();
  }
  std::vector<TokenId> ids() const {
    base::MutexLock lock(mu_);
    return ids_locked();
  }
  std::vector<PromptToken> prompt() const {
    base::MutexLock lock(mu_);
    return prompt_;
  }

  // Rows of all events behind each other.
  SequenceOutputs outputs() const {
    base::MutexLock lock(mu_);
    return outputs_;
  }

  // The whole output is what the request produces alone.
  void expect_complete(const ExpectedOutput& expected, bool prompt_logprobs) const {
    base::MutexLock lock(mu_);
    ASSERT_TRUE(final_.has_value());
    ASSERT_TRUE(final_->status.ok()) << final_->status.message();
    EXPECT_EQ(ids_locked(), expected.tokens);
    std::vector<float> logprobs;
    logprobs.reserve(tokens_.size());
    for (const OutputToken& t : tokens_) logprobs.push_back(t.logprob);
    EXPECT_EQ(logprobs, expected.logprobs);
    EXPECT_EQ(final_->finish->reason, expected.reason);
    if (!prompt_logprobs) return;
    ASSERT_EQ(prompt_.size(), expected.prompt_logprobs.size());
    for (std::size_t i = 1; i < prompt_.size(); ++i)
      EXPECT_EQ(prompt_[i].logprob, expected.prompt_logprobs[i]);
    EXPECT_TRUE(std::isnan(prompt_[0].logprob));
  }
  // What came before a failure is the beginning of it.
  void expect_beginning(const ExpectedOutput& expected) const {
    base::MutexLock lock(mu_);
    ASSERT_LE(tokens_.size(), expected.tokens.size());
    const std::vector<TokenId> ids = ids_locked();
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.tokens.begin()));
  }

  std::function<void()> on_each;  // set before submit; called on the engine thread after each event

 private:
  // What an event tells of its request is told once and for all.
  void check_times(const TokenEvent& event) REQUIRES(mu_) {
    const std::array<TimePoint, 3> times{event.queued_at, event.scheduled_at, event.first_token_at};
    if (!times_) {
      EXPECT_NE(event.queued_at, TimePoint{});
      EXPECT_TRUE(std::ranges::is_sorted(times));
      times_ = times;
      n_cached_ = event.n_cached_prompt_tokens;
    }
    EXPECT_EQ(times, *times_);
    EXPECT_EQ(event.n_cached_prompt_tokens, n_cached_);
  }
  void add_outputs(TokenEvent& event, std::size_t n_tokens) REQUIRES(mu_) {
    if (event.outputs == nullptr) return;
    const bool context =
        !event.outputs->context_logits.empty() || !event.outputs->context_hidden.empty();
    EXPECT_TRUE(!context || (tokens_.empty() && n_tokens > 0)) << "the context comes first";
    append_outputs(std::move(*event.outputs), outputs_);
  }
  std::vector<TokenId> ids_locked() const REQUIRES(mu_) {
    std::vector<TokenId> out;
    out.reserve(tokens_.size());
    for (const OutputToken& t : tokens_) out.push_back(t.id);
    return out;
  }

  const std::size_t n_before_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<OutputToken> tokens_ GUARDED_BY(mu_);
  std::vector<PromptToken> prompt_ GUARDED_BY(mu_);
  SequenceOutputs outputs_ GUARDED_BY(mu_);
  double cumulative_logprob_ GUARDED_BY(mu_);
  std::optional<std::array<TimePoint, 3>> times_ GUARDED_BY(mu_);
  std::uint32_t n_cached_ GUARDED_BY(mu_) = 0;
  std::optional<TokenEvent> final_ GUARDED_BY(mu_);
  bool stalled_ GUARDED_BY(mu_) = false;
};

// Where sinks have an outlet: hands events to them.
class PassOn : public EventOutlet {
 public:
  void on_events(std::span<SinkEvent> events) override {
    n_events += events.size();
    for (SinkEvent& each : events) each.sink->on_event(std::move(each.event));
  }
  std::size_t n_events = 0;
};

class RequestRecorder final : public TokenSink {
 public:
  explicit RequestRecorder(std::uint32_t n_sequences) {
    for (std::uint32_t i = 0; i < n_sequences; ++i)
      sequences_.push_back(std::make_unique<Recorder>());
  }
  void on_event(TokenEvent event) override {
    ASSERT_LT(event.sequence, sequences_.size());
    Recorder& one = *sequences_[event.sequence];
    one.on_event(std::move(event));
    if (on_each) on_each();
  }
  EventOutlet* outlet() override { return through; }
  bool stalled() const override { return sequences_[0]->stalled(); }
  void set_stalled(bool stalled) { sequences_[0]->set_stalled(stalled); }

  std::uint32_t size() const { return static_cast<std::uint32_t>(sequences_.size()); }
  Recorder& operator[](std::size_t i) { return *sequences_[i]; }
  const Recorder& operator[](std::size_t i) const { return *sequences_[i]; }
  bool done() const {
    return std::ranges::all_of(sequences_, [](const auto& one) { return one->done(); });
  }

  std::function<void()> on_each;  // as in Recorder
  EventOutlet* through = nullptr;

 private:
  std::vector<std::unique_ptr<Recorder>> sequences_;
};

// The request alone that sequence `i` of `request` is to equal.
inline GenerationRequest alone(GenerationRequest request, std::size_t i) {
  if (i > 0) request.sampling.seed = request.more_seeds[i - 1];
  request.more_seeds.clear();
  return request;
}

}  // namespace coxswain::batch::testing
