#include "coxswain/executor.h"

#include <atomic>
#include <exception>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "batch/engine.h"
#include "batch/stats_history.h"
#include "library/await_words.h"
#include "library/engine_door.h"
#include "library/engine_parts.h"
#include "library/engine_request.h"
#include "library/latest_cell.h"
#include "library/response_gatherer.h"

namespace coxswain {
namespace {

using library::deadline_after;
using library::failed_response;
using library::failure;
using library::unknown_response;
using library::wait_until;

std::uint64_t key_of(RequestId id) {
  return static_cast<std::uint64_t>(id);
}

}  // namespace

// The engine's thread hands events to on_events(); they are gathered in slots until somebody awaits them.
class Executor::Impl final : public batch::EventOutlet,
                             public batch::EngineObserver,
                             public std::enable_shared_from_this<Impl> {
 public:
  Impl(Result<library::EngineParts> parts, ExecutorOptions options)
      : options_(std::move(options)),
        stats_({.iterations_max = options_.iteration_stats_max,
                .requests_max = options_.request_stats_max,
                .kv_events_max = options_.kv_events_max}),
        status_(parts.status()) {
    if (status_.ok()) status_ = start(std::move(parts).value());
  }

  // The end of the Executor; whoever holds this still finds no request.
  void stop();
  const Status& status() const { return status_; }
  std::uint32_t total_tokens_max() const { return limits_.total_tokens_max; }
  batch::Engine* engine() const { return engine_.get(); }
  const RunnerInfo& runner_info() const { return runner_info_; }
  enum class Place : std::uint8_t { kWithAll, kApart };
  Result<RequestId> enqueue(Request request,
                            const std::shared_ptr<LatestState>& state = nullptr,
                            Place place = Place::kWithAll);
  Result<std::vector<RequestId>> enqueue(std::vector<Request> requests);
  Response await(RequestId id, TimePoint until);
  Response await_any(TimePoint until);
  std::size_t n_ready() const;
  void cancel(RequestId id);
  void shutdown(Shutdown how, std::chrono::milliseconds grace);
  batch::StatsHistory& stats() { return stats_; }

  // batch::EventOutlet
  void on_events(std::span<batch::SinkEvent> events) override;

  // batch::EngineObserver
  batch::StatsWanted stats_wanted() const override { return stats_.stats_wanted(); }
  void on_iteration(const IterationStats& iteration,
                    std::span<const RequestStats> requests) override {
    stats_.on_iteration(iteration, requests);
  }
  void on_kv_events(std::span<KvEvent> events) override { stats_.on_kv_events(events); }
  void on_step_failed(batch::StepKind kind, const Status& status) override;
  void on_runner_lost(const Status& status) override;
  void on_broken_invariant(std::string_view what) override { log(LogLevel::kError, what); }

 private:
  // One request from its acceptance until its final response is collected. All but n_unread is guarded by mu_.
  struct Slot final : batch::TokenSink {
    Slot(Impl& of, const batch::GenerationRequest& request, std::uint32_t n_best)
        : owner(of), gatherer(request, n_best, of.codec_) {}
    void on_event(batch::TokenEvent) override {}  // events come through the outlet
    batch::EventOutlet* outlet() override { return &owner; }
    bool stalled() const override {
      return n_unread.load(std::memory_order_relaxed) >= owner.options_.unread_tokens_max &&
             !owner.drains_.load(std::memory_order_relaxed);
    }

    Impl& owner;
    std::atomic<std::size_t> n_unread = 0;
    library::ResponseGatherer gatherer;
    std::shared_ptr<library::LatestCell> latest;  // takes the events instead, if there is one
    base::CondVar news;
    std::list<Slot*>::iterator place;  // in ready_, while in_ready
    bool in_ready = false;
    bool apart = false;             // await_any() leaves it alone
    bool answered = false;          // its final event has come
    bool collected = false;         // and was handed over
    bool is_submitted = false;      // the engine knows it
    bool cancel_is_wanted = false;  // as soon as it does
    std::uint64_t transfer = 0;     // of a generation-only request on its way to the engine
  };
  using SlotPtr = std::shared_ptr<Slot>;

  Status start(library::EngineParts parts);
  Status give_latest(const SlotPtr& slot,
                     const LatestState& state,
                     const batch::GenerationRequest& request) EXCLUDES(mu_);
  Status open_slot(const SlotPtr& slot) EXCLUDES(mu_);
  Status submit(batch::GenerationRequest request,
                const SlotPtr& slot,
                const std::optional<ContextPhase>& context) EXCLUDES(mu_);
  Status fetch(batch::GenerationRequest request, const SlotPtr& slot, const ContextPhase& context)
      EXCLUDES(mu_);
  Status start_handovers() REQUIRES(mu_);
  void fetched(const SlotPtr& slot, const Status& status) EXCLUDES(mu_);
  void take_event(Slot& slot, batch::TokenEvent event) REQUIRES(mu_);
  void cancel(Slot& slot) REQUIRES(mu_);
  Response collect(Slot& slot) REQUIRES(mu_);
  void leave_ready(Slot& slot) REQUIRES(mu_);
  void forget(Slot& slot) REQUIRES(mu_);
  void note_answered(Slot& slot) REQUIRES(mu_);
  void log(LogLevel level, std::string_view line) const;

  const ExecutorOptions options_;
  batch::StatsHistory stats_;
  Status status_;
  request::RequestLimits limits_;
  RunnerInfo runner_info_;
  library::ModelLease lease_;  // given back last
  std::shared_ptr<const TextCodec> codec_;
  std::atomic<bool> drains_ = false;
  std::atomic<std::uint64_t> next_id_ = 1;

  mutable base::Mutex mu_;
  base::CondVar any_news_;
  base::CondVar all_answered_;
  std::unordered_map<std::uint64_t, SlotPtr> slots_ GUARDED_BY(mu_);
  std::list<Slot*> ready_ GUARDED_BY(mu_);  // what has come, oldest first
  std::size_t n_unanswered_ GUARDED_BY(mu_) = 0;
  std::size_t n_to_await_ GUARDED_BY(mu_) = 0;  // slots that are not apart
  bool closed_ GUARDED_BY(mu_) = false;
  std::unique_ptr<library::SignalThread> signals_ GUARDED_BY(mu_);     // once somebody wants it
  std::unique_ptr<batch::HandoverService> handovers_ GUARDED_BY(mu_);  // likewise
  const std::shared_ptr<library::EngineDoor> door_ = std::make_shared<library::EngineDoor>();
  std::unique_ptr<batch::Engine> engine_;  // null where status_ is not ok, and after stop()
};

Status Executor::Impl::start(library::EngineParts parts) {
  lease_ = std::move(parts.lease);
  limits_ = parts.limits;
  runner_info_ = parts.runner->info();
  codec_ = std::move(parts.codec);
  try {
    engine_ = batch::Engine::create(std::move(parts.runner), parts.options, this);
  } catch (const std::exception& e) {
    return {Code::kResourceExhausted, std::string("cannot start an engine: ") + e.what()};
  }
  door_->open(engine_.get());
  return {};
}

void Executor::Impl::stop() {
  shutdown(Shutdown::kCancel, {});
  std::unique_ptr<batch::HandoverService> handovers;
  {
    base::MutexLock lock(mu_);
    handovers = std::move(handovers_);
  }
  handovers.reset();
  door_->close();  // what others fetch from here is there, or given up
  std::unique_ptr<batch::Engine> engine;
  std::unique_ptr<library::SignalThread> signals;
  {
    base::MutexLock lock(mu_);
    engine = std::move(engine_);
    signals = std::move(signals_);
  }
  engine.reset();
  signals.reset();  // all callbacks have been made
  lease_ = {};
}

void Executor::Impl::log(LogLevel level, std::string_view line) const {
  if (!options_.log) return;
  try {
    options_.log(level, line);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log that fails has nowhere to say so
  }
}

Status Executor::Impl::open_slot(const SlotPtr& slot) {
  base::MutexLock lock(mu_);
  if (closed_) return {Code::kUnavailable, ErrorKind::kUnavailable, "the executor is shut down"};
  if (slots_.size() >= options_.requests_max) {
    return {Code::kResourceExhausted,
            ErrorKind::kOverloaded,
            "`requests_max` is " + std::to_string(options_.requests_max) +
                ": the final responses of as many requests wait to be collected"};
  }
  slots_.emplace(key_of(slot->gatherer.id()), slot);
  ++n_unanswered_;
  if (!slot->apart) ++n_to_await_;
  return {};
}

Status Executor::Impl::submit(batch::GenerationRequest request,
                              const SlotPtr& slot,
                              const std::optional<ContextPhase>& context) {
  COXSWAIN_RETURN_IF_ERROR(open_slot(slot));
  const RequestId id = request.id;
  {
    base::MutexLock lock(mu_);
    if (slot->cancel_is_wanted) {  // before it began
      take_event(*slot, failure({Code::kCancelled, "the request was cancelled"}));
      return {};
    }
  }
  if (context) return fetch(std::move(request), slot, *context);
  Status status = engine_->submit(std::move(request), slot);
  base::MutexLock lock(mu_);
  if (!status.ok()) {
    note_answered(*slot);
    forget(*slot);
    return status;
  }
  slot->is_submitted = true;
  if (slot->cancel_is_wanted) engine_->cancel(id);
  return {};
}

Status Executor::Impl::start_handovers() {
  if (handovers_ != nullptr) return {};
  if (closed_) return {Code::kCancelled, "the executor is shut down"};
  try {
    handovers_ = std::make_unique<batch::HandoverService>();
  } catch (const std::exception& e) {
    return {Code::kResourceExhausted, std::string("cannot start a thread: ") + e.what()};
  }
  return {};
}

// The first token is the answer's; then the blocks come, and the engine goes on behind them.
Status Executor::Impl::fetch(batch::GenerationRequest request,
                             const SlotPtr& slot,
                             const ContextPhase& context) {
  batch::TokenEvent first;
  first.tokens = context.first_tokens;
  first.cumulative_logprob = context.cumulative_logprob;
  const auto state = context.state;
  batch::Engine* const from = state != nullptr ? state->door->enter() : nullptr;
  base::MutexLock lock(mu_);
  take_event(*slot, std::move(first));
  if (Status status = start_handovers(); !status.ok()) {
    if (from != nullptr) state->door->leave();
    take_event(*slot, failure(std::move(status)));
    return {};
  }
  slot->transfer = handovers_->start(
      {.from = from,
       .to = engine_.get(),
       .parked = from != nullptr ? state->parked : nullptr,
       .request = std::move(request),
       .sink = slot},
      [self = shared_from_this(), slot, state, from](const batch::HandoverResult& result) {
        if (from != nullptr) state->door->leave();
        self->fetched(slot, result.status);
      });
  return {};
}

void Executor::Impl::fetched(const SlotPtr& slot, const Status& status) {
  base::MutexLock lock(mu_);
  slot->transfer = 0;
  if (!status.ok()) return take_event(*slot, failure(status));
  slot->is_submitted = true;
  if (slot->cancel_is_wanted) engine_->cancel(slot->gatherer.id());
}

Status Executor::Impl::give_latest(const SlotPtr& slot,
                                   const LatestState& state,
                                   const batch::GenerationRequest& request) {
  const auto tell = [engine = weak_from_this(), id = request.id] {
    if (const auto alive = engine.lock()) alive->cancel(id);
  };
  if (!state.cell()->begin(request, tell)) {
    return {Code::kFailedPrecondition, "`state` has had a request; it serves one"};
  }
  slot->latest = state.cell();
  slot->cancel_is_wanted = slot->latest->is_cancelled();
  base::MutexLock lock(mu_);
  if (signals_ != nullptr || closed_) return {};
  try {
    signals_ = std::make_unique<library::SignalThread>();
  } catch (const std::exception& e) {
    return {Code::kResourceExhausted, std::string("cannot start a thread: ") + e.what()};
  }
  return {};
}

Result<RequestId> Executor::Impl::enqueue(Request request,
                                          const std::shared_ptr<LatestState>& state,
                                          Place place) {
  COXSWAIN_RETURN_IF_ERROR(status_);
  if (state != nullptr) COXSWAIN_RETURN_IF_ERROR(library::require_one_sequence(request));
  if (state != nullptr || place == Place::kApart)
    COXSWAIN_RETURN_IF_ERROR(library::require_whole_request(request));
  const std::optional<ContextPhase> context = request.context_phase;
  const RequestId id{next_id_.fetch_add(1)};
  const std::uint32_t n_best = library::chooses_answers(request) ? request.n : 0;
  COXSWAIN_ASSIGN_OR_RETURN(batch::GenerationRequest made,
                            library::make_engine_request(std::move(request), id, limits_));
  const auto slot = std::make_shared<Slot>(*this, made, n_best);
  slot->apart = place == Place::kApart || state != nullptr;
  if (state != nullptr) COXSWAIN_RETURN_IF_ERROR(give_latest(slot, *state, made));
  COXSWAIN_RETURN_IF_ERROR(submit(std::move(made), slot, context));
  return id;
}

Result<std::vector<RequestId>> Executor::Impl::enqueue(std::vector<Request> requests) {
  std::vector<RequestId> ids;
  ids.reserve(requests.size());
  for (Request& request : requests) {
    Result<RequestId> id = enqueue(std::move(request));
    if (id.ok()) {
      ids.push_back(id.value());
      continue;
    }
    base::MutexLock lock(mu_);
    for (const RequestId accepted : ids) {
      engine_->cancel(accepted);
      const auto it = slots_.find(key_of(accepted));
      if (it == slots_.end()) continue;
      const SlotPtr slot = it->second;
      note_answered(*slot);
      forget(*slot);
    }
    return id.status();
  }
  return ids;
}

void Executor::Impl::on_events(std::span<batch::SinkEvent> events) {
  base::MutexLock lock(mu_);
  for (batch::SinkEvent& e : events) take_event(static_cast<Slot&>(*e.sink), std::move(e.event));
}

void Executor::Impl::take_event(Slot& slot, batch::TokenEvent event) {
  if (slot.answered) return;  // its enqueue() failed with another one's, or the runner was lost
  if (slot.latest != nullptr) {
    if (event.final) note_answered(slot);
    if (slot.latest->write(event)) signals_->push(slot.latest);
    if (event.final) forget(slot);
    return;
  }
  std::shared_ptr<const library::ParkedAt> parked_at;
  if (event.parked != nullptr)
    parked_at = std::make_shared<const library::ParkedAt>(door_, event.parked);
  slot.gatherer.add(std::move(event), std::move(parked_at));
  if (slot.gatherer.answered()) note_answered(slot);
  slot.n_unread.store(slot.gatherer.n_unread_tokens(), std::memory_order_relaxed);
  if (!slot.gatherer.has_news()) return;
  if (!slot.in_ready && !slot.apart) {
    slot.place = ready_.insert(ready_.end(), &slot);
    slot.in_ready = true;
    any_news_.notify_one();
  }
  slot.news.notify_one();
}

// Idempotent.
void Executor::Impl::note_answered(Slot& slot) {
  if (std::exchange(slot.answered, true)) return;
  if (--n_unanswered_ == 0) all_answered_.notify_all();
}

void Executor::Impl::leave_ready(Slot& slot) {
  if (std::exchange(slot.in_ready, false)) ready_.erase(slot.place);
}

// Nobody finds the request any more, and who waits for it learns that.
void Executor::Impl::forget(Slot& slot) {
  leave_ready(slot);
  slot.collected = true;
  slot.news.notify_all();
  slots_.erase(key_of(slot.gatherer.id()));
  if (!slot.apart && --n_to_await_ == 0) any_news_.notify_all();
}

// REQUIRES: the slot has news, and the caller shares it.
Response Executor::Impl::collect(Slot& slot) {
  Response out = slot.gatherer.take();
  slot.n_unread.store(slot.gatherer.n_unread_tokens(), std::memory_order_relaxed);
  if (!slot.gatherer.has_news()) leave_ready(slot);
  if (out.final) forget(slot);
  return out;
}

Response Executor::Impl::await(RequestId id, TimePoint until) {
  base::MutexLock lock(mu_);
  const auto it = slots_.find(key_of(id));
  if (it == slots_.end() || it->second->latest != nullptr) return unknown_response(id);
  const SlotPtr slot = it->second;
  wait_until(slot->news, lock, until, [&] { return slot->gatherer.has_news() || slot->collected; });
  if (slot->collected) return unknown_response(id);
  if (!slot->gatherer.has_news()) return {.id = id};
  return collect(*slot);
}

Response Executor::Impl::await_any(TimePoint until) {
  base::MutexLock lock(mu_);
  wait_until(
      any_news_, lock, until, [&]() REQUIRES(mu_) { return !ready_.empty() || n_to_await_ == 0; });
  if (ready_.empty()) {
    if (n_to_await_ > 0) return {};
    return failed_response({}, {Code::kNotFound, "there is no request to await"});
  }
  const SlotPtr slot = slots_.at(key_of(ready_.front()->gatherer.id()));
  return collect(*slot);
}

std::size_t Executor::Impl::n_ready() const {
  base::MutexLock lock(mu_);
  return ready_.size();
}

void Executor::Impl::cancel(Slot& slot) {
  slot.cancel_is_wanted = true;
  if (slot.is_submitted) engine_->cancel(slot.gatherer.id());
  if (slot.transfer != 0) handovers_->cancel(slot.transfer);
}

void Executor::Impl::cancel(RequestId id) {
  base::MutexLock lock(mu_);
  const auto it = slots_.find(key_of(id));
  if (it == slots_.end()) return;
  cancel(*it->second);
}

void Executor::Impl::shutdown(Shutdown how, std::chrono::milliseconds grace) {
  if (engine_ == nullptr) return;
  const TimePoint until = deadline_after(grace);
  base::MutexLock lock(mu_);
  closed_ = true;
  const auto all_answered = [&]() REQUIRES(mu_) { return n_unanswered_ == 0; };
  if (how == Shutdown::kDrain) {
    drains_.store(true);
    wait_until(all_answered_, lock, until, all_answered);
  }
  for (const auto& [id, slot] : slots_) {
    if (slot->answered) continue;
    cancel(*slot);
  }
  all_answered_.wait(lock, all_answered);
}

void Executor::Impl::on_step_failed(batch::StepKind kind, const Status& status) {
  const char* what = kind == batch::StepKind::kPrefill ? "a prefill" : "a decode step";
  log(LogLevel::kError, std::string(what) + " failed: " + status.message());
}

// Nobody brings another runner, so those that wait are answered, too.
void Executor::Impl::on_runner_lost(const Status& status) {
  log(LogLevel::kError, "the runner is lost: " + status.message());
  base::MutexLock lock(mu_);
  std::vector<SlotPtr> all;  // some are forgotten on the way
  all.reserve(slots_.size());
  for (const auto& [id, slot] : slots_) all.push_back(slot);
  for (const SlotPtr& slot : all) {
    for (std::uint32_t i = 0; i < slot->gatherer.n_sequences(); ++i) {
      if (slot->gatherer.has_ended(i)) continue;
      batch::TokenEvent event =
          failure({Code::kUnavailable, ErrorKind::kGeneration, status.message()});
      event.sequence = i;
      take_event(*slot, std::move(event));
    }
  }
}

Executor::Executor(const LocalModel& model, ExecutorOptions options)
    : impl_(std::make_shared<Impl>(library::make_parts(model, options), std::move(options))) {}

Executor::Executor(std::shared_ptr<StepRunner> runner, ExecutorOptions options)
    : impl_(std::make_shared<Impl>(library::make_parts(std::move(runner), options),
                                   std::move(options))) {}

Executor::~Executor() {
  impl_->stop();
}

batch::Engine* Executor::engine() const {
  return impl_->engine();
}

RunnerInfo Executor::runner_info() const {
  return impl_->runner_info();
}

Status Executor::status() const {
  return impl_->status();
}

std::uint32_t Executor::total_tokens_max() const {
  return impl_->total_tokens_max();
}

Result<RequestId> Executor::enqueue(Request request, const std::shared_ptr<LatestState>& state) {
  if (state == nullptr) return invalid_argument("`state` must not be null", "state");
  return impl_->enqueue(std::move(request), state);
}

Result<RequestId> Executor::enqueue_apart(Request request) {
  return impl_->enqueue(std::move(request), nullptr, Impl::Place::kApart);
}

Result<RequestId> Executor::enqueue(Request request) {
  return impl_->enqueue(std::move(request));
}

Result<std::vector<RequestId>> Executor::enqueue(std::vector<Request> requests) {
  return impl_->enqueue(std::move(requests));
}

Response Executor::await(RequestId id) {
  return impl_->await(id, TimePoint::max());
}

Response Executor::await(RequestId id, std::chrono::milliseconds timeout) {
  return impl_->await(id, deadline_after(timeout));
}

std::vector<Response> Executor::await(std::span<const RequestId> ids) {
  return await(ids, std::chrono::milliseconds::max());
}

std::vector<Response> Executor::await(std::span<const RequestId> ids,
                                      std::chrono::milliseconds timeout) {
  const TimePoint until = deadline_after(timeout);
  std::vector<Response> out;
  out.reserve(ids.size());
  for (const RequestId id : ids) out.push_back(impl_->await(id, until));
  return out;
}

Response Executor::await_any() {
  return impl_->await_any(TimePoint::max());
}

Response Executor::await_any(std::chrono::milliseconds timeout) {
  return impl_->await_any(deadline_after(timeout));
}

std::size_t Executor::n_ready() const {
  return impl_->n_ready();
}

std::vector<IterationStats> Executor::iteration_stats() {
  return impl_->stats().take_iterations();
}

std::vector<RequestStatsOfIteration> Executor::request_stats() {
  return impl_->stats().take_requests();
}

KvEvents Executor::kv_events() {
  return impl_->stats().take_kv_events();
}

void Executor::cancel(RequestId id) {
  impl_->cancel(id);
}

void Executor::shutdown(Shutdown how, std::chrono::milliseconds grace) {
  impl_->shutdown(how, grace);
}

}  // namespace coxswain
