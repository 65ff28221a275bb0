#pragma once
// Recorder: a TokenSink that keeps what a client would see and checks the rules of the event
// stream.
//
// Thread rule: events come from the engine thread; everything else may be called from any thread.

#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine.h"
#include "batch/testing/fake_runner.h"

namespace coxswain::batch::testing {

class Recorder final : public TokenSink {
 public:
  void on_event(TokenEvent event) override {
    std::function<void()> call;
    {
      std::lock_guard lock(mu_);
      EXPECT_FALSE(final_) << "an event after the final one";
      if (!event.prompt.empty()) {
        EXPECT_TRUE(prompt_.empty() && tokens_.empty()) << "prompt tokens come once and first";
        prompt_ = std::move(event.prompt);
      }
      for (const OutputToken& t : event.tokens) {
        tokens_.push_back(t.id);
        logprobs_.push_back(t.logprob);
      }
      if (event.final) {
        EXPECT_EQ(event.finish.has_value(), event.status.ok()) << "a final event finishes or fails";
        EXPECT_EQ(event.n_generated, tokens_.size());
        event.tokens.clear();
        final_ = std::move(event);
      } else {
        EXPECT_TRUE(event.status.ok() && !event.finish && !event.tokens.empty());
      }
      call = on_each;
    }
    changed_.notify_all();
    if (call) call();
  }
  bool stalled() const override {
    std::lock_guard lock(mu_);
    return stalled_;
  }

  void set_stalled(bool stalled) {
    std::lock_guard lock(mu_);
    stalled_ = stalled;
  }
  void wait_final() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return final_.has_value(); });
  }
  void wait_tokens(std::size_t n) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return final_.has_value() || tokens_.size() >= n; });
  }
  bool done() const {
    std::lock_guard lock(mu_);
    return final_.has_value();
  }
  TokenEvent final_event() const {
    std::lock_guard lock(mu_);
    return final_.value_or(TokenEvent{});
  }
  std::vector<TokenId> tokens() const {
    std::lock_guard lock(mu_);
    return tokens_;
  }

  // The whole output is what the request produces alone.
  void expect_complete(const ExpectedOutput& expected, bool prompt_logprobs) const {
    std::lock_guard lock(mu_);
    ASSERT_TRUE(final_.has_value());
    ASSERT_TRUE(final_->status.ok()) << final_->status.message();
    EXPECT_EQ(tokens_, expected.tokens);
    EXPECT_EQ(logprobs_, expected.logprobs);
    EXPECT_EQ(final_->finish->reason, expected.reason);
    if (!prompt_logprobs) return;
    ASSERT_EQ(prompt_.size(), expected.prompt_logprobs.size());
    for (std::size_t i = 1; i < prompt_.size(); ++i)
      EXPECT_EQ(prompt_[i].logprob, expected.prompt_logprobs[i]);
    EXPECT_TRUE(std::isnan(prompt_[0].logprob));
  }
  // What came before a failure is the beginning of it.
  void expect_beginning(const ExpectedOutput& expected) const {
    std::lock_guard lock(mu_);
    ASSERT_LE(tokens_.size(), expected.tokens.size());
    EXPECT_TRUE(std::equal(tokens_.begin(), tokens_.end(), expected.tokens.begin()));
  }

  std::function<void()> on_each;  // set before submit; called on the engine thread after each event

 private:
  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  std::vector<float> logprobs_;
  std::vector<PromptToken> prompt_;
  std::optional<TokenEvent> final_;
  bool stalled_ = false;
};

}  // namespace coxswain::batch::testing
