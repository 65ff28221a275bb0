#pragma once
// Exporter: sends spans to a collector of OTLP, the OpenTelemetry protocol (opentelemetry.io/docs/specs/otlp), version
// 1: the traces of a router.
//
// Spans wait in a queue of bounded length and leave a second after the first of them, or when 512 wait. What a
// collector cannot take now is sent again after 1, 2 and 4 s; then, and where the queue is full, spans are dropped,
// with a line in the log. Nothing that serves a request waits for a collector.
//
// Thread rule: add() from any thread; has a thread of its own. Destroying it sends what is left, once, for 3 s at most
// after an attempt that is under way.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <coxswain/status.h>

#include "base/mutex.h"
#include "telemetry/log.h"
#include "telemetry/trace.h"

namespace coxswain::otlp {

class Collector;

enum class Protocol : std::uint8_t { kGrpc, kHttpProtobuf };

struct ExporterOptions {
  std::string endpoint;
  Protocol protocol = Protocol::kGrpc;
  std::string service_name;
  std::string version;
  std::size_t queue_spans_max = 8192;
  std::size_t spans_at_once = 512;  // so many do not wait for the interval
  std::chrono::milliseconds interval{1'000};
  std::chrono::milliseconds patience{3'000};     // with one attempt
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt; doubles
};

class Exporter final : public telemetry::SpanSink {
 public:
  // kInvalidArgument: the endpoint is none. It need not be reachable.
  static Result<std::unique_ptr<Exporter>> create(ExporterOptions options, telemetry::Logger& log);
  // For tests.
  Exporter(ExporterOptions options, std::unique_ptr<Collector> collector, telemetry::Logger& log);
  ~Exporter() override;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  void add(std::vector<telemetry::Span> spans) override;

 private:
  void loop();
  // Waits for a batch; an empty one: there will be none.
  std::vector<telemetry::Span> take();
  void send(std::vector<telemetry::Span> spans);
  // False: it was told to stop.
  bool pause(std::chrono::milliseconds duration);
  void tell_dropped(std::uint64_t n_spans, const std::string& why);

  const ExporterOptions options_;
  const std::unique_ptr<Collector> collector_;
  telemetry::Logger& log_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::vector<telemetry::Span> queue_ GUARDED_BY(mu_);
  std::optional<TimePoint> due_ GUARDED_BY(mu_);  // of the first in the queue
  bool stop_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace coxswain::otlp
