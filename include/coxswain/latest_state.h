#pragma once
// LatestState: what has become of a request, for a program that wants the newest state and not each step (TurboMind's
// contract of streaming).
//
// The engine writes output tokens into a buffer of the request's size and replaces one state. The consumer takes the
// newest when it likes: who is slow sees larger steps, never a backlog, and holds nobody up. The callback only wakes
// the consumer. It is called on a thread of its own, one call at a time, never while there is nothing to take, and
// never again once the final state was taken or its callback has been made.
//
//     const auto state = std::make_shared<LatestState>([&] { wake_up(); });
//     const auto id = engine.enqueue(std::move(request), state);
//     while (auto now = state->take()) use(state->tokens(*now).subspan(n_seen));
//
// Thread rule: take() and what follows from it: one consumer thread at a time. cancel(): any thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include <coxswain/export.h>
#include <coxswain/request.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain {

namespace library {
class LatestCell;
}

struct AnswerState {
  std::uint32_t n_tokens = 0;  // of the output, there to be read
  // Nothing comes behind it; what follows is of a final one.
  bool final = false;
  Status status = {};
  std::optional<FinishReason> finish = {};
  Usage usage = {};
};

class COXSWAIN_EXPORT LatestState {
 public:
  enum class Wakes : std::uint8_t { kEachChange, kFinalOnly };

  // What `on_change` throws is dropped. It must not destroy the Executor, and what it uses outlives that.
  explicit LatestState(std::function<void()> on_change = {}, Wakes wakes = Wakes::kEachChange);

  // The newest state, unless it was taken before.
  std::optional<AnswerState> take();
  // [state.n_tokens] each, valid as long as this object.
  std::span<const TokenId> tokens(const AnswerState& state) const;
  std::span<const float> logprobs(const AnswerState& state) const;

  // One atomic exchange decides; the first call tells the engine. The final state has then kCancelled, unless the
  // request was answered already.
  void cancel();

  // The library's own.
  const std::shared_ptr<library::LatestCell>& cell() const { return cell_; }

 private:
  std::shared_ptr<library::LatestCell> cell_;
};

}  // namespace coxswain
