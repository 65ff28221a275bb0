#pragma once
// LatestCell: what engine, signal thread and consumer of a LatestState share.
//
// One word holds the newest state: the number of tokens, whether it is final, whether nobody has taken it. Tokens are
// written before the word that counts them, and what a final state says before the word that says so; the consumer
// reads the word first. Nothing is written behind the final word.
//
// SignalThread calls the consumers' callbacks.
//
// Thread rule: begin() before the engine knows the request; write() the engine's thread; take() the consumer's;
// cancel() any; signal() the signal thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <coxswain/latest_state.h>

#include "base/mutex.h"
#include "batch/engine.h"

namespace coxswain::library {

class LatestCell {
 public:
  LatestCell(std::function<void()> on_change, LatestState::Wakes wakes)
      : on_change_(std::move(on_change)), wakes_(wakes) {}

  // Makes room for the output; `cancel` tells the engine. False if the cell has had a request.
  bool begin(const batch::GenerationRequest& request, std::function<void()> cancel);
  // True if the signal thread is to call signal(). REQUIRES: no final event was written.
  bool write(const batch::TokenEvent& event);
  void signal();
  std::optional<AnswerState> take();
  void cancel();
  bool is_cancelled() const { return cancelled_.load(); }

  std::span<const TokenId> tokens(std::size_t n) const { return std::span(tokens_).first(n); }
  std::span<const float> logprobs(std::size_t n) const { return std::span(logprobs_).first(n); }

 private:
  const std::function<void()> on_change_;
  const LatestState::Wakes wakes_;
  std::atomic<bool> used_ = false;
  std::atomic<bool> begun_ = false;  // tell_engine_ is there
  std::atomic<bool> cancelled_ = false;
  std::function<void()> tell_engine_;
  std::vector<TokenId> tokens_;  // [max_new_tokens]
  std::vector<float> logprobs_;
  AnswerState last_;
  std::uint32_t n_prompt_ = 0;
  std::uint32_t n_written_ = 0;  // the engine's
  std::atomic<std::uint64_t> state_ = 0;
  std::atomic<bool> is_queued_ = false;  // for the signal thread
};

// Thread rule: push() any thread; the destructor makes the calls that wait and joins.
class SignalThread {
 public:
  SignalThread() : thread_([this] { loop(); }) {}
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  void push(std::shared_ptr<LatestCell> cell);

 private:
  void loop();

  base::Mutex mu_;
  base::CondVar changed_;
  // Each cell once at most: bounded by the requests.
  std::vector<std::shared_ptr<LatestCell>> cells_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace coxswain::library
