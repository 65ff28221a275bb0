#include "manager/manager_loop.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/keyed_hash.h"

namespace coxswain::manager {

// Lives in served_, in news_ while it has something to send, and in the engine until its end is known.
class ManagerLoop::Served final : public batch::TokenSink,
                                  public std::enable_shared_from_this<Served> {
 public:
  Served(ManagerLoop& loop, std::uint64_t request, Answer begun, std::uint32_t n_answers)
      : loop_(loop), id(request), answer(std::move(begun)), n_open(n_answers) {}

  void on_event(batch::TokenEvent event) override {
    if (event.final && --n_open == 0) end(event.status);
    answer.add(event);
    list();
  }

  void end(const Status& status) {
    final = true;
    // Who was stopped gets what there is.
    if (status.ok() || (stopped && status.code() == Code::kCancelled)) return;
    if (error.empty()) error = in_tensor_words(status).message();
    if (error.empty()) error = "the request failed";
  }
  void list() {
    if (std::exchange(listed, true)) return;
    loop_.news_.push_back(shared_from_this());
  }

 private:
  ManagerLoop& loop_;

 public:
  const std::uint64_t id;
  Answer answer;
  std::uint32_t n_open;            // answers whose last event has not come
  std::uint64_t output_bytes = 0;  // of the logits that it may yield
  bool active = true;              // in served_: it was not refused
  bool listed = false;
  bool stopped = false;
  bool final = false;
  std::string error;
};

class ManagerLoop::Observer final : public batch::EngineObserver {
 public:
  batch::StatsWanted stats_wanted() const override { return {.iterations = true}; }
  void on_iteration(const IterationStats& stats, std::span<const RequestStats>) override {
    last = stats;
  }
  // What stands at the end of a step stays if the next iteration has none.
  void begin() { last = {.batch_size_max = last.batch_size_max, .kv = last.kv, .wait = last.wait}; }

  IterationStats last;
};

ManagerLoop::ManagerLoop(std::shared_ptr<StepRunner> runner,
                         const Settings& settings,
                         SafeCallbacks& callbacks)
    : settings_(settings),
      callbacks_(callbacks),
      info_(runner->info()),
      observer_(std::make_unique<Observer>()),
      collector_(settings_.type),
      stats_{.is_v1 = settings_.type == BatchingType::kV1},
      core_(std::move(runner),
            settings_.engine,
            base::draw_hash_key(),
            {.before_final_event = [](RequestId) {},
             .runner_lost = [] {},
             .observer = observer_.get()}) {}

ManagerLoop::~ManagerLoop() = default;

bool ManagerLoop::turn(bool leaving) {
  if (!leaving && !left_) take_requests();
  const std::size_t n_active = served_.size();
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
      std::min(left(settings_.options.max_num_requests, served_.size()),
               left(settings_.options.max_queue_size, core_.n_never_scheduled()));
  return room >= kUnlimited ? -1 : static_cast<std::int32_t>(room);
}

Status ManagerLoop::refuse_full() const {
  const auto full = [](const char* limit, std::uint32_t value, const char* why) {
    return Status(Code::kResourceExhausted,
                  "`" + std::string(limit) + "` is " + std::to_string(value) + ": " + why);
  };
  const BatchManagerOptions& options = settings_.options;
  return served_.size() >= options.max_num_requests && options.max_num_requests != 0
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
  const BatchManagerOptions& options = settings_.options;
  const TensorRules rules{
      .vocab_size = info_.vocab_size,
      .input_tokens_max = options.enable_chunked_context ? 0 : options.max_num_tokens,
      .streaming_allowed = options.decoupled,
      .max_beam_width = settings_.max_beam_width};
  COXSWAIN_ASSIGN_OR_RETURN(ParsedRequest parsed, parse_request(request, rules));
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
  const bool with_prompt = !parsed.outputs.streaming && !settings_.options.exclude_input_in_output;
  auto served = std::make_shared<Served>(
      *this,
      request.id(),
      Answer(
          parsed.outputs, with_prompt ? wanted.prompt : std::vector<TokenId>{}, info_.vocab_size),
      wanted.n_answers());
  served->output_bytes = n_output_bytes;
  output_bytes_ += n_output_bytes;
  served_.emplace(request.id(), served);
  core_.add(std::move(wanted), std::move(served), Clock::now());
  return {};
}

void ManagerLoop::refuse(std::uint64_t id, std::string error) {
  auto refused = std::make_shared<Served>(*this, id, Answer({}, {}, 0), 0);
  refused->active = false;
  refused->final = true;
  refused->error = std::move(error);
  refused->list();
}

bool ManagerLoop::compute() {
  observer_->begin();
  if (core_.n_sequences() == 0 && core_.n_in_flight() == 0 && !core_.owes_drops()) return false;
  core_.advance(Clock::now());
  bool worked = false;
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
  std::vector<std::shared_ptr<Served>> news = std::exchange(news_, {});
  for (std::shared_ptr<Served>& next : news) {
    // Of a final response it is the last owner.
    const std::shared_ptr<Served> served = std::move(next);
    served->listed = false;
    if (served->final || (served->answer.streams() && served->answer.has_news())) send(*served);
  }
}

void ManagerLoop::send(Served& served) {
  const std::uint64_t id = served.id;
  const bool final = served.final;
  const bool active = served.active;
  std::vector<NamedTensor> outputs;
  if (served.error.empty()) outputs = served.answer.take();
  if (final && active) {
    output_bytes_ -= served.output_bytes;
    served_.erase(id);
  }
  const std::string what = callbacks_.send_response(id, outputs, final, served.error);
  if (what.empty() || final) return;
  served.error = "send_response has thrown: " + what;
  core_.cancel(RequestId{id});
}

void ManagerLoop::stop(std::uint64_t id) {
  const auto it = served_.find(id);
  if (it == served_.end()) return;
  it->second->stopped = true;
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
