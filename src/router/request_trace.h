#pragma once
// The spans of one request: the whole of it, and below it what validation, waiting, prompt and answer took.
// docs/traces.md has names and attributes.
//
// Thread rule: owned by one thread at a time. Does nothing where there is no sink.

#include <string>

#include <coxswain/status.h>

#include "api/answer.h"
#include "http/server.h"
#include "router/request_log.h"
#include "telemetry/trace.h"

namespace coxswain::router {

class RequestTrace {
 public:
  RequestTrace() = default;
  // Begins a trace, or goes on with the one that the client names; nothing if the client does not keep that.
  RequestTrace(telemetry::SpanSink* sink, const http::Request& request);

  // Null: it is not traced.
  const telemetry::TraceId* id() const { return sink_ == nullptr ? nullptr : &trace_; }

  // `sequence`: the one whose times are told.
  void succeed(const RequestRecord& record,
               const RequestTimes& times,
               const api::SequenceAnswer& sequence) const;
  // `http_status`: the one that the client got.
  void fail(const RequestRecord& record, const Status& status, int http_status) const;

 private:
  telemetry::Span request_span(const RequestRecord& record, TimePoint end, int http_status) const;

  telemetry::SpanSink* sink_ = nullptr;
  telemetry::TraceId trace_{};
  telemetry::SpanId parent_{};
  TimePoint received_{};
};

}  // namespace coxswain::router
