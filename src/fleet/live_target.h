#pragma once
// LiveTarget: what a replica whose weights still arrive does beside one that has all of them (fleet/plan/zigzag.h). Of
// prompts that wait for that one it computes the layers that it has.
//
// It runs one layer of the earliest prompt whose next layer is there, then looks again. A prompt leaves it between two
// layers, when somebody takes it, with what has been done of it. When all layers have arrived it begins with no further
// prompt and is refractory: it computes what nobody takes to the end, and has that ready to be taken.
//
// A replica that has all weights from the beginning says so when it is asked, and that is all.
//
// Thread rule: any thread, but not from `changed` and what take() is given: these are called on the engine's thread and
// must not block. The engine outlives whatever is asked for here, or calls it back while it ends.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "batch/engine.h"
#include "batch/layer_steps.h"

namespace coxswain::fleet {

enum class LivePhase : std::uint8_t {
  kUnknown,  // nobody has asked this runner, or it has not answered
  kLoading,
  kRefractory,
  kWhole,  // it has all layers, or computes none alone
};

class LiveTarget : public std::enable_shared_from_this<LiveTarget> {
 public:
  // How often a runner that loads is asked what has arrived, where a prompt may wait for its next layer.
  static constexpr std::chrono::milliseconds kAskWaiting{20};

  enum class Prompt : std::uint8_t {
    kQueued,  // no layer of it has begun
    kBegun,
    kKept,      // refractory: it is about to be finished here
    kFinished,  // all layers of its whole blocks
    kGone,      // unknown: it cannot be divided, was lost with the runner, taken or forgotten
  };
  struct State {
    LivePhase phase = LivePhase::kUnknown;
    std::uint32_t n_layers = 0;  // 0: it has not said so
    std::uint32_t layers_ready = 0;
    std::size_t n_prompts = 0;          // that it has now
    std::uint64_t n_prompts_begun = 0;  // in all
    std::uint64_t n_layers_run = 0;     // of these
  };
  using Parked = std::shared_ptr<const batch::ParkedContext>;

  // `changed`: the phase has, or a prompt has become finished or gone.
  LiveTarget(batch::Engine& engine, std::function<void()> changed);

  State state() const;
  bool loads() const { return loads_; }     // or is refractory
  bool is_known() const { return known_; }  // false: restarted(), and not answered since
  Prompt prompt(std::uint64_t id) const;
  // Prompts that it may be given more: BlitzScale's limit, and beyond that one where all wait for their next layer.
  std::size_t room(TimePoint now) const;

  // Another runner, or there may soon be one: nothing is known of it.
  void restarted();
  // Asks the runner what has arrived, if that may have changed and it is time. Returns when it is to be called again;
  // TimePoint::max(): when something has changed.
  TimePoint follow(TimePoint now);
  // The prompt of `request` after those that it has; its number.
  std::uint64_t begin(batch::GenerationRequest request);
  // With what has been done of it, leased for whoever goes on; null if that is nothing. `taken` is called once.
  void take(std::uint64_t id, std::function<void(Parked)> taken);
  void forget(std::uint64_t id);

 private:
  struct Task {
    std::uint64_t id = 0;
    batch::GenerationRequest request;
    batch::SplitPrompt split = {};  // no hold: it waits for its turn
    std::uint32_t layers_done = 0;
    std::uint64_t hidden = 0;                 // before the next layer
    std::function<void(Parked)> wanted = {};  // behind the layer that runs
    bool forgotten = false;                   // likewise
  };
  using Tasks = std::vector<Task>;

  // All of these on the engine's thread.
  void ask(batch::EngineCore& core);
  void add(batch::EngineCore& core, std::uint64_t id, batch::GenerationRequest&& request);
  Status open(batch::EngineCore& core, Task& task) const;
  void next(batch::EngineCore& core);
  void layer_done(batch::EngineCore& core, std::uint64_t id, const Result<std::uint64_t>& hidden);
  void note_waiting(bool idle);
  void note(const batch::EngineCore& core);
  void set_phase(LivePhase phase) REQUIRES(mu_);
  void give(batch::EngineCore& core,
            Tasks::iterator task,
            const std::function<void(Parked)>& taken);
  void drop(batch::EngineCore& core, Tasks::iterator task);
  void show(std::uint64_t id, Prompt prompt);
  bool same_runner(const batch::EngineCore& core);
  Tasks::iterator find(std::uint64_t id);

  batch::Engine& engine_;
  const std::function<void()> changed_;

  // The engine's thread.
  std::uint64_t epoch_ = 0;
  Tasks tasks_;  // in order of arrival
  std::optional<std::uint64_t> running_;

  std::atomic<bool> loads_{false};
  std::atomic<bool> known_{true};
  mutable base::Mutex mu_;
  State state_ GUARDED_BY(mu_);
  std::map<std::uint64_t, Prompt> prompts_ GUARDED_BY(mu_);
  bool all_wait_ GUARDED_BY(mu_) = false;  // for their next layer
  bool asked_ GUARDED_BY(mu_) = false;
  TimePoint asked_at_ GUARDED_BY(mu_){};
  TimePoint since_ GUARDED_BY(mu_){};  // it is known to load
  std::uint64_t next_id_ GUARDED_BY(mu_) = 1;
};

}  // namespace coxswain::fleet
