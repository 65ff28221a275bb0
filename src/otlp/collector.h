#pragma once
// Collector: where traces are sent, by OTLP over gRPC or over HTTP. Internal to the module.
//
// Thread rule: one thread.

#include <chrono>
#include <memory>
#include <string>

#include <coxswain/status.h>

#include "otlp/exporter.h"

namespace opentelemetry::proto::collector::trace::v1 {
class ExportTraceServiceRequest;
}

namespace coxswain::otlp {

using TraceRequest = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;

class Collector {
 public:
  virtual ~Collector() = default;
  // kUnavailable: another attempt may do; anything else is final.
  virtual Status send(const TraceRequest& request, std::chrono::milliseconds patience) = 0;
};

// Neither connects. `endpoint`: as endpoint_of() returns it.
std::unique_ptr<Collector> make_grpc_collector(const std::string& endpoint);
std::unique_ptr<Collector> make_http_collector(std::string endpoint);

// What a collector is made of: `https://` or `http://`, host, port and path, the two latter as the protocol has them
// where the text has none. kInvalidArgument says what is wrong.
Result<std::string> endpoint_of(const std::string& text, Protocol protocol);

}  // namespace coxswain::otlp
