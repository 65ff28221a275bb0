#include "router/request_trace.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "api/errors.h"

namespace coxswain::router {
namespace {

using telemetry::Span;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// A part that never came takes no time, at the end of the one before.
Span part(std::string name, const Span& whole, TimePoint& from, TimePoint to) {
  const TimePoint begin = std::exchange(from, std::clamp(to, from, whole.end));
  return {.trace = whole.trace,
          .id = telemetry::new_span_id(),
          .parent = whole.id,
          .name = std::move(name),
          .begin = begin,
          .end = from};
}

}  // namespace

RequestTrace::RequestTrace(telemetry::SpanSink* sink, const http::Request& request)
    : received_(request.received) {
  if (sink == nullptr) return;
  const auto parent = telemetry::parse_traceparent(request.header("traceparent"));
  if (parent && !parent->sampled) return;
  sink_ = sink;
  trace_ = parent ? parent->trace : telemetry::new_trace_id();
  if (parent) parent_ = parent->span;
}

Span RequestTrace::request_span(const RequestRecord& record, TimePoint end, int http_status) const {
  Span out{.trace = trace_,
           .id = telemetry::new_span_id(),
           .parent = parent_,
           .name = "POST " + std::string(record.path),
           .kind = telemetry::SpanKind::kServer,
           .begin = received_,
           .end = std::max(received_, end),
           .attributes = {{"http.request.method", "POST"},
                          {"url.path", std::string(record.path)},
                          {"http.response.status_code", std::int64_t{http_status}},
                          {"request_id", std::string(record.request_id)}}};
  if (!record.key.empty()) out.attributes.emplace_back("api_key_name", std::string(record.key));
  return out;
}

void RequestTrace::succeed(const RequestRecord& record,
                           const RequestTimes& times,
                           const api::SequenceAnswer& sequence) const {
  if (sink_ == nullptr) return;
  Span whole = request_span(record, Clock::now(), 200);
  auto& facts = whole.attributes;
  facts.emplace_back("gen_ai.usage.input_tokens", static_cast<std::int64_t>(record.prompt_tokens));
  facts.emplace_back("gen_ai.usage.output_tokens",
                     static_cast<std::int64_t>(record.generated_tokens));
  facts.emplace_back("total_time", seconds(times.total));
  facts.emplace_back("validation_time", seconds(times.validation));
  facts.emplace_back("queue_time", seconds(times.queue));
  facts.emplace_back("inference_time", seconds(times.inference));
  facts.emplace_back("time_per_token", seconds(times.per_token));
  if (record.seed) facts.emplace_back("seed", std::to_string(*record.seed));
  if (record.draft_tokens > 0) {
    facts.emplace_back("draft_tokens", static_cast<std::int64_t>(record.draft_tokens));
    facts.emplace_back("draft_tokens_accepted",
                       static_cast<std::int64_t>(record.draft_tokens_accepted));
  }
  TimePoint from = received_;
  std::vector<Span> spans;
  spans.push_back(part("validate", whole, from, sequence.queued_at));
  spans.push_back(part("queued", whole, from, sequence.scheduled_at));
  spans.push_back(part("prefill", whole, from, sequence.first_token_at));
  spans.push_back(part("decode", whole, from, sequence.finished_at));
  spans.push_back(std::move(whole));
  sink_->add(std::move(spans));
}

void RequestTrace::fail(const RequestRecord& record, const Status& status, int http_status) const {
  if (sink_ == nullptr) return;
  Span whole = request_span(record, Clock::now(), http_status);
  whole.attributes.emplace_back("error.type",
                                std::string(api::error_row(api::client_kind(status)).name));
  whole.error = api::client_text(status);
  sink_->add({std::move(whole)});
}

}  // namespace coxswain::router
