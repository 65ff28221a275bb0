#include "router/call.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/sse.h"
#include "json/json.h"
#include "router/delivery.h"
#include "router/error_response.h"

namespace coxswain::router {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Events of a sequence that wait for the delivery thread before the engine stops planning for its request.
constexpr std::size_t kPendingEventsMax = 64;

Clock::duration between(TimePoint begin, TimePoint end) {
  return std::max(end - begin, Clock::duration::zero());
}

double seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

std::string in_milliseconds(Clock::duration d) {
  return std::to_string(duration_cast<milliseconds>(d).count());
}

std::string in_seconds(Clock::duration d) {
  const double value = static_cast<double>(duration_cast<microseconds>(d).count()) / 1e6;
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  return std::string(text, written.ptr);
}

}  // namespace

// Times of one or several sequences, with the tokens of the whole answer.
struct Call::Figures {
  RequestTimes times;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t draft_tokens = 0;
  std::uint64_t draft_tokens_accepted = 0;

  void add_times(const api::SequenceAnswer& sequence, TimePoint received) {
    const Clock::duration inferring = between(sequence.scheduled_at, sequence.finished_at);
    times.total += between(received, sequence.finished_at);
    times.validation += between(received, sequence.queued_at);
    times.queue += between(sequence.queued_at, sequence.scheduled_at);
    times.inference += inferring;
    times.per_token += inferring / std::max(sequence.n_generated, 1U);
  }
};

// What the engine sees of one request: the sequences of `call` from first_sequence on.
class Call::Sink final : public DeliverySink, public std::enable_shared_from_this<Sink> {
 public:
  Sink(std::shared_ptr<Call> call, std::size_t first_sequence)
      : call_(std::move(call)), first_sequence_(first_sequence) {}

  batch::EventOutlet* outlet() override { return &call_->delivery_; }
  void on_event(batch::TokenEvent event) override {
    call_->delivery_.push(shared_from_this(), std::move(event));
  }
  bool queues(batch::TokenEvent& event) override {
    call_->note_tokens(first_sequence_ + event.sequence, event);
    if (!call_->streams()) {
      call_->absorb(call_->setup_.sequences[first_sequence_ + event.sequence], event);
      if (!event.final) return false;
    }
    n_pending_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  bool begins() const override { return call_->streams() && !call_->begun_; }
  void deliver(batch::TokenEvent event) override {
    const std::size_t sequence = first_sequence_ + event.sequence;
    call_->deliver(sequence, std::move(event));
    n_pending_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool stalled() const override {
    return call_->stalled(n_pending_.load(std::memory_order_relaxed));
  }

 private:
  std::shared_ptr<Call> call_;
  std::size_t first_sequence_;
  std::atomic<std::uint32_t> n_pending_{0};
};

Call::Call(CallSetup setup,
           RequestTally tally,
           batch::RequestDoor& door,
           Delivery& delivery,
           telemetry::Metrics* metrics,
           telemetry::Logger& log)
    : setup_(std::move(setup)),
      tally_(std::move(tally)),
      door_(door),
      delivery_(delivery),
      metrics_(metrics),
      log_(log),
      tokens_at_(setup_.sequences.size()),
      written_at_(Clock::now()) {
  for (const auto& request : setup_.requests) {
    ids_.push_back(request.id);
    n_prompt_tokens_ += request.prompt.size();
  }
}

OpenRequest Call::describe() const {
  return {.request_id = setup_.request_id,
          .answer_id = setup_.answer_id,
          .path = setup_.path,
          .key_name = setup_.key_name,
          .received = setup_.received,
          .prompt_tokens = n_prompt_tokens_,
          .generated_tokens = n_generated_.load(std::memory_order_relaxed),
          .requests = ids_};
}

void Call::start() {
  const auto self = shared_from_this();
  delivery_.open(self);
  std::vector<batch::GenerationRequest> requests = std::move(setup_.requests);
  setup_.responder->on_close([weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->abandon();
  });
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Status status(Code::kCancelled, "the client is gone");
    const auto sink = std::make_shared<Sink>(self, i * setup_.per_prompt);
    if (!abandoned_.load()) status = door_.submit(std::move(requests[i]), sink);
    if (!status.ok()) {
      batch::TokenEvent event;
      event.final = true;
      event.status = std::move(status);
      delivery_.push(sink, std::move(event));
    } else if (abandoned_.load()) {
      door_.cancel(ids_[i]);  // the notice came between the check and the submission
    }
  }
}

void Call::abandon() {
  abandoned_.store(true);
  for (RequestId id : ids_) door_.cancel(id);
}

void Call::cancel() {
  cancelled_.store(true);
  abandon();
}

// What the client is told: nothing of cancels, and fields by the names that its route has for them.
Status Call::client_status(const Status& status) const {
  if (status.code() == Code::kCancelled && cancelled_.load()) {
    return {Code::kInvalidArgument, ErrorKind::kBadRequest, "the request was cancelled"};
  }
  if (status.code() == Code::kCancelled) {
    return {Code::kUnavailable, ErrorKind::kUnavailable, "the request was cancelled"};
  }
  if (status.kind() != ErrorKind::kValidation) return status;
  const std::string* name = nullptr;
  if (status.field() == batch::kPromptField) name = &setup_.prompt_field;
  if (status.field() == batch::kMaxNewTokensField) name = &setup_.max_new_tokens_field;
  static const std::string min_tokens = "min_tokens";
  static const std::string stop_ids = "stop_token_ids";
  if (status.field() == "min_new_tokens") name = &min_tokens;
  if (status.field() == "end_ids" || status.field() == "stop_token_sequences") name = &stop_ids;
  if (name == nullptr) return status;
  return {status.code(), status.kind(), "`" + *name + "`: " + status.message(), *name};
}

bool Call::stalled(std::size_t n_pending) const {
  if (!streams()) return false;  // what it has yielded waits for nobody
  return n_pending > kPendingEventsMax * setup_.per_prompt ||
         setup_.responder->unsent_bytes() > setup_.unsent_bytes_max;
}

// On the engine's thread, of every event.
void Call::note_tokens(std::size_t index, const batch::TokenEvent& event) {
  if (event.tokens.empty() || setup_.sequences[index].prompt_only) return;
  n_generated_.fetch_add(event.tokens.size(), std::memory_order_relaxed);
  if (metrics_ == nullptr) return;
  metrics_->generated_tokens.add(event.tokens.size());
  const TimePoint now = Clock::now();
  const TimePoint before = std::exchange(tokens_at_[index], now);
  if (before != TimePoint{}) metrics_->inter_token_duration.observe(seconds(now - before));
}

// On the engine's thread for a whole answer, whose tokens nobody looks at before the final event is delivered; on the
// delivery thread for a stream.
void Call::absorb(api::SequenceAnswer& sequence, batch::TokenEvent& event) const {
  if (!sequence.prompt_only) {
    sequence.n_generated += static_cast<std::uint32_t>(event.tokens.size());
    for (OutputToken& token : event.tokens) {
      sequence.logprob_sum += static_cast<double>(token.logprob);
      if (setup_.format->keeps_tokens()) sequence.tokens.push_back(std::move(token));
    }
  }
  if (setup_.format->keeps_tokens() && !event.prompt.empty()) {
    sequence.prompt = std::move(event.prompt);
  }
  if (!event.final && !streams()) return;
  sequence.n_cached = event.n_cached_prompt_tokens;
  sequence.queued_at = event.queued_at;
  sequence.scheduled_at = event.scheduled_at;
  sequence.first_token_at = event.first_token_at;
  sequence.finished_at = Clock::now();
  if (!event.final) return;
  sequence.n_drafts = event.drafts.computed;
  sequence.n_drafts_accepted = event.drafts.accepted;
  if (event.finish && !sequence.prompt_only) sequence.finish = std::move(*event.finish);
}

void Call::deliver(std::size_t index, batch::TokenEvent event) {
  if (ended_) return;
  if (event.final && !event.status.ok()) return fail(event.status);
  const bool whole = !event.final || (event.finish && !event.tokens.empty());
  if (!whole) {
    return fail(Status(Code::kInternal,
                       ErrorKind::kIncompleteGeneration,
                       "a sequence ended without its last token"));
  }
  api::SequenceAnswer& sequence = setup_.sequences[index];
  if (streams()) {
    absorb(sequence, event);
    write_events(setup_.format->events(sequence, index, {event.tokens, event.prompt, event.final}));
  }
  if (!event.final) return;
  observe(sequence);
  if (++n_finished_ == setup_.sequences.size()) complete();
}

void Call::begin_stream(std::string_view first) {
  begun_ = true;
  http::Response head;
  head.headers = std::move(setup_.headers);  // of a stream nobody else asks for them
  head.headers.emplace_back("cache-control", "no-cache");
  head.headers.emplace_back("x-accel-buffering", "no");
  head.content_type =
      setup_.style == api::ApiStyle::kOllama ? api::kNdjsonContentType : api::kSseContentType;
  head.body = first;
  setup_.responder->begin_stream(std::move(head));
}

void Call::write_events(const std::vector<std::string>& events) {
  if (events.empty()) return;
  for (const std::string& event : events) {
    if (begun_) {
      setup_.responder->write(event);
    } else {
      begin_stream(event);
    }
  }
  written_at_ = Clock::now();
}

void Call::leave(std::size_t n_served) {
  setup_.permits = Permits();
  if (setup_.pace != nullptr) setup_.pace->note_end(n_served, Clock::now());
}

void Call::complete() {
  ended_ = true;
  // Both before the client can know that its request has ended.
  leave(setup_.sequences.size());
  tally_.succeed();
  const Figures all = figures();
  const RequestRecord facts = record(all);
  log_success(log_, facts, all.times);
  setup_.trace.succeed(facts, all.times, setup_.sequences[api::best_sequence(setup_.sequences)]);
  if (streams()) {
    write_events(setup_.format->closing(setup_.sequences));
    setup_.responder->end();
  } else {
    http::Response response;
    response.headers = setup_.headers;
    const auto timing = timing_headers(all);
    response.headers.insert(response.headers.end(), timing.begin(), timing.end());
    response.body = setup_.format->body(setup_.sequences);
    setup_.responder->send(std::move(response));
  }
}

void Call::fail(const Status& status) {
  if (ended_) return;
  ended_ = true;
  abandon();
  const bool refused =
      status.kind() == ErrorKind::kOverloaded || status.kind() == ErrorKind::kUnavailable;
  leave(refused ? 0 : setup_.sequences.size());
  const Status told = client_status(status);
  const bool gone = setup_.responder->closed() && status.code() == Code::kCancelled;
  const bool wanted = setup_.responder->closed() || cancelled_.load();
  tally_.fail(api::failure_label(wanted ? status : told));
  const RequestRecord facts{
      .request_id = setup_.request_id, .path = setup_.path, .key = setup_.key_name};
  log_failure(log_, facts, gone ? status : told);
  setup_.trace.fail(facts, told, begun_ ? 200 : api::http_status(setup_.style, told));
  if (begun_) {
    std::vector<std::string> last = setup_.format->failure(told);
    if (last.empty()) {
      last.push_back(api::error_event(setup_.style, told, setup_.request_id));
      const bool openai =
          setup_.style == api::ApiStyle::kOpenAi || setup_.style == api::ApiStyle::kTgi;
      if (openai) last.emplace_back(api::kSseDone);
    }
    write_events(last);
    setup_.responder->end();
  } else {
    const auto retry_after =
        setup_.pace == nullptr ? kRetryAfterMin : setup_.pace->refuse(told, Clock::now());
    setup_.responder->send(error_response(setup_.style, told, setup_.request_id, retry_after));
  }
}

TimePoint Call::keep_alive(TimePoint now, std::chrono::milliseconds interval) {
  const std::string_view sign =
      setup_.style == api::ApiStyle::kOllama ? api::kNdjsonKeepAlive : api::kSseKeepAlive;
  if (now - written_at_ >= interval) write_events({std::string(sign)});
  return written_at_ + interval;
}

void Call::observe(const api::SequenceAnswer& sequence) const {
  if (metrics_ == nullptr) return;
  Figures own;
  own.add_times(sequence, setup_.received);
  const telemetry::TraceId* trace = setup_.trace.id();
  metrics_->request_duration.observe(seconds(own.times.total), trace);
  metrics_->request_validation_duration.observe(seconds(own.times.validation), trace);
  metrics_->request_queue_duration.observe(seconds(own.times.queue), trace);
  metrics_->request_inference_duration.observe(seconds(own.times.inference), trace);
  metrics_->request_mean_time_per_token_duration.observe(seconds(own.times.per_token), trace);
  metrics_->request_generated_tokens.observe(static_cast<double>(sequence.n_generated));
  metrics_->time_to_first_token_duration.observe(
      seconds(between(setup_.received, sequence.first_token_at)), trace);
  metrics_->sequence_finish[sequence.finish.reason].add();
}

Call::Figures Call::figures() const {
  Figures out;
  const bool chosen = setup_.timing == TimingHeaders::kBestSequence;
  const std::size_t best = api::best_sequence(setup_.sequences);
  for (std::size_t i = 0; i < setup_.sequences.size(); ++i) {
    const api::SequenceAnswer& sequence = setup_.sequences[i];
    if (setup_.timing == TimingHeaders::kSumOfSequences || i == best) {
      out.add_times(sequence, setup_.received);
    }
    if (chosen ? i == best : i % setup_.per_prompt == 0) out.prompt_tokens += sequence.n_prompt;
    if (chosen && i != best) continue;
    out.generated_tokens += sequence.n_generated;
    out.draft_tokens += sequence.n_drafts;
    out.draft_tokens_accepted += sequence.n_drafts_accepted;
  }
  return out;
}

RequestRecord Call::record(const Figures& figures) const {
  const std::size_t best =
      setup_.timing == TimingHeaders::kBestSequence ? api::best_sequence(setup_.sequences) : 0;
  return {setup_.request_id,
          setup_.path,
          figures.prompt_tokens,
          figures.generated_tokens,
          setup_.sequences[best].seed,
          figures.draft_tokens,
          figures.draft_tokens_accepted,
          setup_.key_name};
}

std::vector<http::Header> Call::timing_headers(const Figures& figures) const {
  std::vector<http::Header> out;
  if (setup_.timing != TimingHeaders::kSumOfSequences) {
    out.emplace_back("x-compute-time", in_seconds(figures.times.total));
  }
  out.emplace_back("x-total-time", in_milliseconds(figures.times.total));
  out.emplace_back("x-validation-time", in_milliseconds(figures.times.validation));
  out.emplace_back("x-queue-time", in_milliseconds(figures.times.queue));
  out.emplace_back("x-inference-time", in_milliseconds(figures.times.inference));
  out.emplace_back("x-time-per-token", in_milliseconds(figures.times.per_token));
  out.emplace_back("x-prompt-tokens", std::to_string(figures.prompt_tokens));
  out.emplace_back("x-generated-tokens", std::to_string(figures.generated_tokens));
  return out;
}

}  // namespace coxswain::router
