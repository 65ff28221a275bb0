#pragma once
// EngineOverShard: a test fixture with a batch engine that drives a ServedShard, all in this
// process but for the socket. What kind of client is between them is the test's choice.
//
// Thread rule: the fixture belongs to the test's thread; a Recorder gets its events from the
// engine's thread.

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine.h"
#include "rpc/testing/fake_runner.h"
#include "rpc/testing/served_shard.h"

namespace coxswain::rpc::testing {

// Keeps what a client would see.
class Recorder final : public batch::TokenSink {
 public:
  void on_event(batch::TokenEvent event) override {
    std::lock_guard lock(mu_);
    for (OutputToken& token : event.tokens) tokens_.push_back(std::move(token));
    prompt_.insert(prompt_.end(), event.prompt.begin(), event.prompt.end());
    if (event.finish) finish_ = event.finish;
    if (event.final) {
      ++n_final_;
      status_ = event.status;
    }
    changed_.notify_all();
  }

  // The status of the final event, once it has come.
  Status wait() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return n_final_ > 0; });
    return status_;
  }
  void wait_for_token() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return !tokens_.empty(); });
  }

  // REQUIRES for all of these: wait() has returned.
  std::vector<TokenId> ids() const {
    std::lock_guard lock(mu_);
    std::vector<TokenId> out;
    out.reserve(tokens_.size());
    for (const OutputToken& token : tokens_) out.push_back(token.id);
    return out;
  }
  const std::vector<OutputToken>& tokens() const { return tokens_; }
  const std::vector<PromptToken>& prompt() const { return prompt_; }
  const std::optional<SequenceFinish>& finish() const { return finish_; }
  int n_final() const {
    std::lock_guard lock(mu_);
    return n_final_;
  }

 private:
  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::vector<OutputToken> tokens_;
  std::vector<PromptToken> prompt_;
  std::optional<SequenceFinish> finish_;
  int n_final_ = 0;
  Status status_;
};

class EngineOverShard : public ServedShard {
 protected:
  using Submitted = std::pair<batch::GenerationRequest, std::shared_ptr<Recorder>>;

  // The client to be tested, connected to socket(); a null pointer and a failed test otherwise.
  virtual std::shared_ptr<StepRunner> connect() = 0;
  virtual batch::GenerationRequest any_request() = 0;

  void TearDown() override {
    engine_.reset();
    ServedShard::TearDown();
  }

  void start(batch::EngineOptions options) {
    serve(runner_);
    options.batch_size_max = 12;
    options.check_invariants = true;
    engine_ = batch::Engine::create(connect(), options, log_, nullptr);
  }

  template <typename Client>
  static std::shared_ptr<StepRunner> require(Result<std::unique_ptr<Client>> client) {
    EXPECT_TRUE(client.ok()) << client.status().message();
    return client.ok() ? std::shared_ptr<StepRunner>(std::move(client).value()) : nullptr;
  }

  std::shared_ptr<Recorder> submit(const batch::GenerationRequest& request) {
    auto sink = std::make_shared<Recorder>();
    const Status status = engine_->submit(request, sink);
    EXPECT_TRUE(status.ok()) << status.message();
    return sink;
  }

  std::vector<Submitted> submit_any(int n) {
    std::vector<Submitted> out;
    for (int i = 0; i < n; ++i) {
      const batch::GenerationRequest request = any_request();
      out.emplace_back(request, submit(request));
    }
    return out;
  }

  // Ends the shard while it holds a step back, and starts the next.
  // REQUIRES: runner_.hold(), and there are requests.
  void replace_shard() {
    auto stopped = std::async(std::launch::async, [&] { service_.reset(); });
    while (engine_->stats().runner_up) std::this_thread::yield();
    runner_.release();
    stopped.get();
    serve(runner_);
    engine_->replace_runner(connect());
  }

  static std::vector<TokenId> expected_output(const batch::GenerationRequest& request) {
    return expected_tokens(request.prompt, request.stopping.max_new_tokens);
  }

  std::uint32_t pick(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

  std::mt19937 random_{7};
  std::uint64_t n_requests_ = 0;
  std::unique_ptr<batch::Engine> engine_;
};

}  // namespace coxswain::rpc::testing
