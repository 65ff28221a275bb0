#include "coxswain/stepper.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/keyed_hash.h"
#include "batch/engine_core.h"
#include "batch/posted_work.h"
#include "batch/sequence.h"
#include "library/engine_parts.h"
#include "library/engine_request.h"
#include "library/response_gatherer.h"

namespace coxswain {
namespace {

// So long a stepper that ends goes on with blocks that are on their way to the tier, and a step waits for blocks of it.
constexpr std::chrono::seconds kOffloadGrace{5};
constexpr std::chrono::milliseconds kTierPatience{100};

std::uint64_t key_of(RequestId id) {
  return static_cast<std::uint64_t>(id);
}

Status full(std::string_view option, std::size_t value) {
  return {Code::kResourceExhausted,
          ErrorKind::kOverloaded,
          "`" + std::string(option) + "` is " + std::to_string(value) +
              ": as many are waiting already"};
}

}  // namespace

class Stepper::Impl final : public batch::EngineObserver {
 public:
  Impl(Result<library::EngineParts> parts, ExecutorOptions options)
      : options_(std::move(options)), status_(parts.status()) {
    if (!status_.ok()) return;
    lease_ = std::move(parts.value().lease);
    limits_ = parts.value().limits;
    codec_ = std::move(parts.value().codec);
    engine_options_ = parts.value().options;
    info_ = parts.value().runner->info();
    core_ = std::make_unique<batch::EngineCore>(
        std::move(parts.value().runner),
        engine_options_,
        base::draw_hash_key(),
        batch::EngineCore::Hooks{
            .before_final_event = [](RequestId) {},
            .runner_lost = [this] { lost_ = true; },
            .observer = this,
            .post = [this](batch::EngineWork work) { posted_.post(std::move(work)); }});
  }
  ~Impl() override;

  const Status& status() const { return status_; }
  Result<RequestId> add(Request request);
  void cancel(RequestId id) {
    if (core_ != nullptr) core_->cancel(id);
  }
  std::vector<Response> step();
  bool idle() const { return core_ == nullptr || (sinks_.empty() && core_->n_sequences() == 0); }

  void on_runner_lost(const Status& status) override { why_lost_ = status; }

 private:
  struct Sink final : batch::TokenSink {
    Sink(Impl& of, const batch::GenerationRequest& request, std::uint32_t n_best)
        : owner(of), gatherer(request, n_best, of.codec_) {}
    void on_event(batch::TokenEvent event) override {
      const bool listed = gatherer.has_news();
      gatherer.add(std::move(event));
      if (!listed && gatherer.has_news()) owner.ready_.push_back(this);
    }
    Impl& owner;
    library::ResponseGatherer gatherer;
    std::uint64_t output_bytes = 0;  // batch::output_bytes()
  };

  Status has_room(const batch::GenerationRequest& request) const;
  void end_those_that_wait();
  void compute();
  void finish_offloads();

  const ExecutorOptions options_;
  Status status_;
  request::RequestLimits limits_;
  batch::EngineOptions engine_options_;
  library::ModelLease lease_;  // given back behind the core
  std::shared_ptr<const TextCodec> codec_;
  RunnerInfo info_;
  std::uint64_t next_id_ = 1;
  bool lost_ = false;
  Status why_lost_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Sink>> sinks_;  // not yet answered
  std::vector<Sink*> ready_;                                        // of these, with news
  std::uint64_t output_bytes_ = 0;                                  // of all of them
  batch::PostedWork posted_;
  std::unique_ptr<batch::EngineCore> core_;  // null where status_ is not ok
};

// The runner is left as it was found: nothing in flight, nothing remembered.
Stepper::Impl::~Impl() {
  if (core_ == nullptr) return;
  core_->cancel_all({Code::kCancelled, "the stepper is gone"});
  while (core_->n_in_flight() > 0 || core_->owes_drops()) {
    while (core_->submit_next(Clock::now())) {
    }
    if (core_->n_in_flight() > 0) core_->apply_oldest(core_->wait_oldest(), Clock::now());
  }
  finish_offloads();
}

// What is on its way to the tier, for a while.
void Stepper::Impl::finish_offloads() {
  const TimePoint until = Clock::now() + kOffloadGrace;
  while (core_->owes_offloads() && Clock::now() < until) {
    posted_.run(*core_);
    core_->submit_next(Clock::now());
    if (core_->n_in_flight() > 0) {
      core_->apply_oldest(core_->wait_oldest(), Clock::now());
    } else if (core_->owes_offloads()) {
      posted_.wait(until);
    }
  }
}

Status Stepper::Impl::has_room(const batch::GenerationRequest& request) const {
  if (sinks_.size() >= options_.requests_max) return full("requests_max", options_.requests_max);
  if (core_->n_never_scheduled() + request.n_sequences() > options_.queue_requests_max)
    return full("queue_requests_max", options_.queue_requests_max);
  const std::size_t n_tokens =
      request.n_sequences() * batch::waiting_tokens(request, request.prompt.size());
  if (core_->stats().queued_tokens + n_tokens > options_.queue_tokens_max)
    return full("queue_tokens_max", options_.queue_tokens_max);
  const std::uint64_t n_bytes = batch::output_bytes(info_, request, request.prompt.size());
  if (n_bytes > 0 && output_bytes_ + n_bytes > info_.capabilities.output_bytes_max)
    return full("output_bytes_max", info_.capabilities.output_bytes_max);
  return {};
}

Result<RequestId> Stepper::Impl::add(Request request) {
  COXSWAIN_RETURN_IF_ERROR(status_);
  if (lost_) return Status(Code::kUnavailable, ErrorKind::kUnavailable, why_lost_.message());
  const RequestId id{next_id_};
  const std::uint32_t n_best = library::chooses_answers(request) ? request.n : 0;
  COXSWAIN_RETURN_IF_ERROR(library::require_whole_request(request));
  COXSWAIN_ASSIGN_OR_RETURN(batch::GenerationRequest made,
                            library::make_engine_request(std::move(request), id, limits_));
  COXSWAIN_RETURN_IF_ERROR(
      batch::EngineCore::admissible(info_, engine_options_, made, made.prompt));
  COXSWAIN_RETURN_IF_ERROR(has_room(made));
  ++next_id_;
  auto sink = std::make_shared<Sink>(*this, made, n_best);
  sink->output_bytes = batch::output_bytes(info_, made, made.prompt.size());
  output_bytes_ += sink->output_bytes;
  sinks_.emplace(key_of(id), sink);
  core_->add(std::move(made), std::move(sink), Clock::now());
  return id;
}

// Nobody brings another runner.
void Stepper::Impl::end_those_that_wait() {
  if (!lost_) return;
  core_->cancel_all({Code::kUnavailable, ErrorKind::kGeneration, why_lost_.message()});
}

void Stepper::Impl::compute() {
  posted_.run(*core_);
  core_->advance(Clock::now());
  while (core_->submit_next(Clock::now())) {
  }
  end_those_that_wait();
  if (ready_.empty() && core_->n_in_flight() == 0 && core_->waits_for_tier())
    return posted_.wait(std::min(core_->next_deadline(), Clock::now() + kTierPatience));
  while (ready_.empty() && core_->n_in_flight() > 0) {
    Result<StepResult> result = core_->wait_oldest(core_->next_deadline());
    if (core_->still_runs(result)) {
      core_->advance(Clock::now());
      continue;
    }
    core_->apply_oldest(std::move(result), Clock::now());
    end_those_that_wait();
    return;
  }
}

std::vector<Response> Stepper::Impl::step() {
  std::vector<Response> out;
  if (core_ == nullptr) return out;
  compute();
  out.reserve(ready_.size());
  for (Sink* sink : std::exchange(ready_, {})) {
    while (sink->gatherer.has_news()) out.push_back(sink->gatherer.take());
    if (!out.back().final) continue;
    output_bytes_ -= sink->output_bytes;
    sinks_.erase(key_of(out.back().id));
  }
  return out;
}

Stepper::Stepper(const LocalModel& model, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(library::make_parts(model, options), std::move(options))) {}

Stepper::Stepper(std::shared_ptr<StepRunner> runner, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(library::make_parts(std::move(runner), options),
                                   std::move(options))) {}

Stepper::~Stepper() = default;

Status Stepper::status() const {
  return impl_->status();
}

Result<RequestId> Stepper::add(Request request) {
  return impl_->add(std::move(request));
}

void Stepper::cancel(RequestId id) {
  impl_->cancel(id);
}

std::vector<Response> Stepper::step() {
  return impl_->step();
}

bool Stepper::idle() const {
  return impl_->idle();
}

}  // namespace coxswain
