#include "batch/engine.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "base/thread_name.h"
#include "batch/engine_core.h"
#include "batch/inbox.h"
#include "batch/watchdog.h"

namespace coxswain::batch {
namespace {

// How often commands are looked for while a step runs, and stalled clients while nothing else is to be done.
constexpr std::chrono::milliseconds kPoll{10};
// The same where blocks are on their way: somebody's next token waits for the next command.
constexpr std::chrono::milliseconds kTransferPoll{2};

// An engine that ends goes on so long with blocks that are on their way to the tier.
constexpr std::chrono::seconds kOffloadGrace{5};

class ThreadedEngine final : public Engine {
 public:
  ThreadedEngine(std::shared_ptr<StepRunner> runner,
                 const EngineOptions& options,
                 EngineObserver* observer)
      : options_(options),
        runner_(runner),
        inbox_(options, runner->info()),
        core_(std::move(runner), options, base::draw_hash_key(), hooks(observer)) {
    inbox_.publish(core_.stats(), 0);
    core_.observe_state();
    thread_ = std::thread([this] {
      base::name_thread("engine");
      loop();
    });
  }
  ~ThreadedEngine() override {
    inbox_.stop();
    thread_.join();
    core_.fail_transfers({Code::kUnavailable, ErrorKind::kUnavailable, "the engine ends"});
    for (const EngineWork& work : inbox_.take(false, {}).work) work(core_);
  }

  Status submit(GenerationRequest request, std::shared_ptr<TokenSink> sink) override {
    return inbox_.submit(std::move(request), std::move(sink));
  }
  Status accepting() const override { return inbox_.accepting(); }
  void cancel(RequestId id) override { inbox_.cancel(id); }
  void post(EngineWork work) override { inbox_.post(std::move(work)); }
  EngineStats stats() const override { return inbox_.stats(); }
  bool drain(std::chrono::milliseconds grace) override { return inbox_.drain(grace); }

  Status healthy() const override {
    if (!inbox_.stats().runner_up)
      return {Code::kUnavailable, ErrorKind::kHealthcheck, "no model runner is available"};
    COXSWAIN_RETURN_IF_ERROR(watchdog_.check(Clock::now()));
    return current_runner()->healthy();
  }

  void replace_runner(std::shared_ptr<StepRunner> runner) override {
    {
      base::MutexLock lock(runner_mu_);
      runner_ = runner;
    }
    inbox_.replace_runner(std::move(runner));
  }

 private:
  EngineCore::Hooks hooks(EngineObserver* observer) {
    return {.before_final_event = [this](RequestId id) { inbox_.forget(id); },
            .runner_lost = [this] { inbox_.runner_lost(); },
            .observer = observer,
            .post = [this](EngineWork work) { inbox_.post(std::move(work)); }};
  }

  std::shared_ptr<StepRunner> current_runner() const {
    base::MutexLock lock(runner_mu_);
    return runner_;
  }

  void loop() {
    while (turn()) {
    }
  }

  // One pass. False once the engine shall stop and everything is answered.
  bool turn() {
    const bool busy = core_.n_in_flight() > 0;
    TimePoint wake = core_.next_deadline();
    if (stopping_) wake = std::min(wake, Clock::now() + kPoll);
    if (core_.any_stalled()) wake = std::min(wake, Clock::now() + kPoll);
    take_commands(inbox_.take(!busy && !runnable_, wake));

    core_.advance(Clock::now());
    bool submitted = false;
    while (core_.submit_next(Clock::now())) {
      submitted = true;
      take_commands(inbox_.take(false, {}));  // a plan may have let somebody go on
    }
    if (core_.n_in_flight() == 0) {
      watchdog_.idle();
    } else if (!busy && submitted) {
      watchdog_.work(Clock::now());
    }
    check();
    if (core_.n_in_flight() > 0) {
      publish();  // a step may take long
      const TimePoint begin = Clock::now();
      if (!waiting_since_) waiting_since_ = begin;
      const auto poll = core_.transfers().empty() ? kPoll : kTransferPoll;
      Result<StepResult> result = core_.wait_oldest(std::min(core_.next_deadline(), begin + poll));
      if (core_.still_runs(result)) return true;
      const TimePoint end = Clock::now();
      watchdog_.step_finished(end, end - *std::exchange(waiting_since_, std::nullopt));
      core_.apply_oldest(std::move(result), end);
      check();
    }
    // A pass in which a step was in flight may have made room for more; one without can only wait.
    runnable_ = busy || submitted;
    publish();
    if (!stopping_ || core_.n_sequences() > 0 || core_.n_in_flight() > 0 || core_.owes_drops())
      return true;
    return core_.owes_offloads() && Clock::now() < offload_until_;
  }

  void take_commands(Inbox::Commands commands) {
    if (commands.runner != nullptr) core_.replace_runner(std::move(commands.runner));
    for (auto& s : commands.submissions) core_.add(std::move(s.request), s.sink, s.queued_at);
    for (const RequestId id : commands.cancels) core_.cancel(id);
    for (const EngineWork& work : commands.work) work(core_);
    if (!commands.stop) return;
    stopping_ = true;
    offload_until_ = Clock::now() + kOffloadGrace;
    core_.cancel_all({Code::kCancelled, ErrorKind::kUnavailable, "the server is shutting down"});
  }

  void publish() {
    inbox_.publish(core_.stats(), core_.n_never_scheduled());
    core_.observe_state();
  }

  void check() {
    if (options_.check_invariants) core_.require_invariants();
  }

  const EngineOptions options_;
  mutable base::Mutex runner_mu_;
  std::shared_ptr<StepRunner> runner_ GUARDED_BY(runner_mu_);  // for healthy() only
  Inbox inbox_;
  Watchdog watchdog_;
  EngineCore core_;                         // engine thread only
  std::optional<TimePoint> waiting_since_;  // for the oldest step in flight
  bool runnable_ = false;
  bool stopping_ = false;
  TimePoint offload_until_{};  // when it is
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Engine> Engine::create(std::shared_ptr<StepRunner> runner,
                                       const EngineOptions& options,
                                       EngineObserver* observer) {
  return std::make_unique<ThreadedEngine>(std::move(runner), options, observer);
}

}  // namespace coxswain::batch
