#include "manager/manager_loop.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/keyed_hash.h"
#include "batch/stats_history.h"

namespace coxswain::manager {

namespace {

TensorRules rules_of(const RunnerInfo& info, const ManagerLoop::Settings& settings) {
  const BatchManagerOptions& options = settings.options;
  return {.vocab_size = info.vocab_size,
          .sequences_max =
              options.max_num_requests > 0 ? options.max_num_requests : options.max_batch_size,
          .input_tokens_max = options.enable_chunked_context ? 0 : options.max_num_tokens,
          .streaming_allowed = options.decoupled,
          .max_beam_width = settings.max_beam_width};
}

}  // namespace

class ManagerLoop::Observer final : public batch::EngineObserver {
 public:
  explicit Observer(std::size_t kv_events_max)
      : history({.iterations_max = 0, .kv_events_max = kv_events_max}) {}
  batch::StatsWanted stats_wanted() const override {
    return {.iterations = true, .kv_events = history.stats_wanted().kv_events};
  }
  void on_kv_events(std::span<KvEvent> events) override { history.on_kv_events(events); }
  void on_iteration(const IterationStats& stats, std::span<const RequestStats>) override {
    last = stats;
  }
  // What stands at the end of a step stays if the next iteration has none.
  void begin() { last = {.batch_size_max = last.batch_size_max, .kv = last.kv, .wait = last.wait}; }

  IterationStats last;
  batch::StatsHistory history;  // of events alone
};

ManagerLoop::ManagerLoop(std::shared_ptr<StepRunner> runner,
                         const Settings& settings,
                         SafeCallbacks& callbacks,
                         std::function<void()> wake)
    : settings_(settings),
      callbacks_(callbacks),
      info_(runner->info()),
      rules_(rules_of(info_, settings_)),
      observer_(std::make_unique<Observer>(settings_.options.event_buffer_max_size)),
      collector_(settings_.type),
      stats_{.is_v1 = settings_.type == BatchingType::kV1},
      posted_(std::move(wake)),
      core_(std::move(runner),
            settings_.engine,
            base::draw_hash_key(),
            {.before_final_event = [](RequestId) {},
             .runner_lost = [] {},
             .observer = observer_.get(),
             .post = [this](batch::EngineWork work) { posted_.post(std::move(work)); }}) {}

ManagerLoop::~ManagerLoop() = default;

KvEvents ManagerLoop::kv_events() {
  return observer_->history.take_kv_events();
}

bool ManagerLoop::turn(bool leaving) {
  if (!leaving && !left_) take_requests();
  const std::size_t n_active = n_active_;
  const bool computed = compute();
  const bool had_news = !news_.empty();
  send_news();
  const TimePoint now = Clock::now();
  poll_stops(now);
  if (n_active > 0) {
    stats_ = collector_.next(observer_->last, n_active, settings_.options.max_num_requests);
    tell_stats(now);
  } else {
    stats_.n_active = 0;
    stats_.step = observer_->last;
  }
  return computed || had_news;
}

std::int32_t ManagerLoop::room() const {
  constexpr std::size_t kUnlimited = std::numeric_limits<std::int32_t>::max();
  const auto left = [](std::size_t limit, std::size_t n) {
    return limit == 0 ? kUnlimited : limit - std::min(limit, n);
  };
  const std::size_t room =
      std::min(left(settings_.options.max_num_requests, n_active_),
               left(settings_.options.max_queue_size, core_.n_never_scheduled()));
  return room >= kUnlimited ? -1 : static_cast<std::int32_t>(room);
}

Status ManagerLoop::refuse_full() const {
  const auto full = [](const char* limit, std::uint32_t value, const char* why) {
    return Status(Code::kResourceExhausted,
                  "`" + std::string(limit) + "` is " + std::to_string(value) + ": " + why);
  };
  const BatchManagerOptions& options = settings_.options;
  return n_active_ >= options.max_num_requests && options.max_num_requests != 0
             ? full("max_num_requests",
                    options.max_num_requests,
                    "as many requests are being served")
             : full("max_queue_size",
                    options.max_queue_size,
                    "as many requests wait for their turn");
}

void ManagerLoop::take_requests() {
  // The pointers are let go at the end of this call, before any response.
  for (const auto& request : callbacks_.get_requests(room())) {
    if (request == nullptr) {
      callbacks_.note_failure("get_requests", "a null pointer is among the requests");
      continue;
    }
    take_request(*request);
  }
}

void ManagerLoop::take_request(const InferenceRequest& request) {
  if (settings_.options.terminate_req_id == request.id()) {
    left_ = true;
  } else if (is_stop_message(request)) {
    stop(request.id());
  } else if (Status status = admit(request); !status.ok()) {
    refuse(request.id(), status.message());
  }
}

Status ManagerLoop::admit(const InferenceRequest& request) {
  if (left_) {
    return {Code::kUnavailable,
            "the batch manager takes no more requests: `terminate_req_id` came"};
  }
  if (served_.contains(request.id())) {
    return {Code::kFailedPrecondition,
            "request " + std::to_string(request.id()) + " is still being served"};
  }
  if (room() == 0) return refuse_full();
  if (!core_.runner_up()) return {Code::kUnavailable, "no model runner is available"};
  COXSWAIN_ASSIGN_OR_RETURN(ParsedRequest parsed, parse_request(request, rules_));
  batch::GenerationRequest& wanted = parsed.request;
  if (Status status = batch::EngineCore::admissible(info_, settings_.engine, wanted, wanted.prompt);
      !status.ok()) {
    return in_tensor_words(status);
  }
  const std::uint64_t n_output_bytes = batch::output_bytes(info_, wanted, wanted.prompt.size());
  if (n_output_bytes > info_.capabilities.output_bytes_max - output_bytes_) {
    return {Code::kResourceExhausted,
            "`output_bytes_max` is " + std::to_string(info_.capabilities.output_bytes_max) +
                ", of which " + std::to_string(output_bytes_) +
                " are taken: logits of this request take " + std::to_string(n_output_bytes)};
  }
  serve(std::move(parsed), n_output_bytes);
  return {};
}

void ManagerLoop::serve(ParsedRequest parsed, std::uint64_t n_output_bytes) {
  batch::GenerationRequest& wanted = parsed.request;
  const bool with_prompt = !parsed.outputs.streaming && !settings_.options.exclude_input_in_output;
  const std::uint32_t n = wanted.n_sequences();
  std::vector<Answer> answers;
  for (std::uint32_t i = 0; i < n; ++i) {
    answers.emplace_back(parsed.outputs,
                         with_prompt ? wanted.prompt : std::vector<TokenId>{},
                         info_.vocab_size,
                         n > 1 ? std::optional(i) : std::nullopt);
  }
  const auto id = static_cast<std::uint64_t>(wanted.id);
  auto served =
      std::make_shared<ServedRequest>(news_, id, std::move(answers), wanted.n_answers() / n);
  served->output_bytes = n_output_bytes;
  output_bytes_ += n_output_bytes;
  n_active_ += n;
  served_.emplace(id, served);
  core_.add(std::move(wanted), std::move(served), Clock::now());
}

void ManagerLoop::refuse(std::uint64_t id, std::string error) {
  auto refused = std::make_shared<ServedRequest>(news_, id, std::vector<Answer>{}, 0);
  refused->fail(std::move(error));
  refused->list();
}

bool ManagerLoop::compute() {
  observer_->begin();
  bool worked = posted_.run(core_);
  if (core_.n_sequences() == 0 && core_.n_in_flight() == 0 && !core_.owes_drops() &&
      !core_.owes_offloads())
    return worked;
  core_.advance(Clock::now());
  while (core_.submit_next(Clock::now())) worked = true;
  if (core_.n_in_flight() > 0) {
    core_.apply_oldest(core_.wait_oldest(), Clock::now());
    worked = true;
  }
  if (settings_.engine.check_invariants) core_.require_invariants();
  if (!core_.runner_up() && core_.n_sequences() > 0)
    core_.cancel_all({Code::kUnavailable, "the model runner is lost"});
  return worked;
}

void ManagerLoop::send_news() {
  ServedRequest::News news = std::exchange(news_, {});
  for (std::shared_ptr<ServedRequest>& next : news) {
    // Of a final response it is the last owner.
    const std::shared_ptr<ServedRequest> served = std::move(next);
    served->unlist();
    if (served->error().empty()) send_outputs(*served);
    if (!served->error().empty()) send_error(*served);
  }
}

void ManagerLoop::send_outputs(ServedRequest& served) {
  for (std::uint32_t i = 0; i < served.n_sequences() && served.error().empty(); ++i) {
    if (!served.has_news(i)) continue;
    const std::vector<NamedTensor> outputs = served.take(i);
    const bool final = served.is_told();
    if (final) forget(served);
    const std::string what = callbacks_.send_response(served.id(), outputs, final, {});
    if (!what.empty() && !final) served.fail("send_response has thrown: " + what);
  }
}

// Behind the end of all its sequences.
void ManagerLoop::send_error(const ServedRequest& served) {
  if (!served.has_ended()) return core_.cancel(RequestId{served.id()});
  forget(served);
  callbacks_.send_response(served.id(), {}, true, served.error());
}

// Its id may be used again. A refused one has none.
void ManagerLoop::forget(const ServedRequest& served) {
  if (served.n_sequences() == 0) return;
  output_bytes_ -= served.output_bytes;
  n_active_ -= served.n_sequences();
  served_.erase(served.id());
}

void ManagerLoop::stop(std::uint64_t id) {
  const auto it = served_.find(id);
  if (it == served_.end()) return;
  it->second->stop();
  core_.cancel(RequestId{id});
}

void ManagerLoop::poll_stops(TimePoint now) {
  if (now < next_stop_poll_) return;
  next_stop_poll_ = now + settings_.options.stop_signal_period;
  for (const std::uint64_t id : callbacks_.poll_stop_signals()) stop(id);
}

void ManagerLoop::tell_stats(TimePoint now) {
  if (!callbacks_.wants_stats() || now < next_stats_) return;
  next_stats_ = now + settings_.options.stats_period;
  callbacks_.return_stats(json_of(stats_));
}

}  // namespace coxswain::manager
