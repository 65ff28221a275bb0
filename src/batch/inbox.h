#pragma once
// Inbox: what other threads want from the engine thread, and what they may know about it.
//
// A request is refused here, before anybody owns it: the engine drains, has no runner, is full, or the request can
// never fit. The limit on requests counts those that were never in a step, here or in the engine; that on tokens all
// that wait, paused ones too.
//
// Thread rule: any thread; take() and publish() belong to the engine thread. One short lock, never
// held while waiting.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <coxswain/step_runner.h>

#include "base/mutex.h"
#include "batch/engine.h"

namespace coxswain::batch {

class Inbox {
 public:
  struct Submission {
    GenerationRequest request;
    std::shared_ptr<TokenSink> sink;
    TimePoint queued_at{};
  };
  struct Commands {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancels;
    std::vector<EngineWork> work;
    std::shared_ptr<StepRunner> runner;  // a new one
    bool stop = false;
    bool empty() const {
      return submissions.empty() && cancels.empty() && work.empty() && runner == nullptr && !stop;
    }
  };

  Inbox(const EngineOptions& options, RunnerInfo info)
      : options_(options), info_(std::make_shared<const RunnerInfo>(std::move(info))) {}

  Status submit(GenerationRequest request, std::shared_ptr<TokenSink> sink);
  Status accepting() const {
    base::MutexLock lock(mu_);
    return refuses_all();
  }
  void cancel(RequestId id);
  void post(EngineWork work);
  void replace_runner(std::shared_ptr<StepRunner> runner);
  void stop();
  // No new requests from here on. True once none is unanswered and no block retires, false when `grace` has passed.
  bool drain(std::chrono::milliseconds grace);
  EngineStats stats() const;

  // Everything that has arrived. Waits for something until `deadline` if `wait`.
  Commands take(bool wait, TimePoint deadline);
  void forget(RequestId id);  // answered: the id may be used again
  void publish(const EngineStats& stats, std::size_t n_never_scheduled);
  void runner_lost();

 private:
  Status refuses_all() const REQUIRES(mu_);
  Status has_room(std::size_t n_sequences, std::size_t n_tokens, std::uint64_t n_output_bytes) const
      REQUIRES(mu_);

  const EngineOptions options_;
  mutable base::Mutex mu_;
  base::CondVar arrived_;
  base::CondVar answered_;
  std::shared_ptr<const RunnerInfo> info_ GUARDED_BY(mu_);
  Commands commands_ GUARDED_BY(mu_);
  // Of commands_.submissions:
  std::size_t submitted_sequences_ GUARDED_BY(mu_) = 0;
  std::uint64_t submitted_tokens_ GUARDED_BY(mu_) = 0;
  struct Active {
    bool cancelled = false;
    std::uint64_t output_bytes = 0;  // as output_bytes() counts them
  };
  std::unordered_map<std::uint64_t, Active> active_ GUARDED_BY(mu_);  // unanswered requests
  std::uint64_t output_bytes_ GUARDED_BY(mu_) = 0;                    // of all of them
  EngineStats stats_ GUARDED_BY(mu_);  // of the engine, with what it has taken from here
  std::size_t n_never_scheduled_ GUARDED_BY(mu_) = 0;  // in the engine
  bool draining_ GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::batch
