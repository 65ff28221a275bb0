#pragma once
// Spans as OTLP's message. Internal to the module.
//
// Thread rule: pure, but for a look at both clocks.

#include <span>
#include <string_view>

#include "otlp/collector.h"
#include "proto/otlp_trace.pb.h"
#include "telemetry/trace.h"

namespace coxswain::otlp {

struct Sender {
  std::string_view service_name;
  std::string_view version;
};

// Times become those of the system's clock, all by one difference of the clocks.
TraceRequest encode(std::span<const telemetry::Span> spans, const Sender& sender);

}  // namespace coxswain::otlp
