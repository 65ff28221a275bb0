#include "otlp/exporter.h"

#include <iterator>
#include <utility>

#include "base/thread_name.h"
#include "otlp/collector.h"
#include "otlp/encode.h"

namespace coxswain::otlp {
namespace {

constexpr int kAttempts = 4;
constexpr std::chrono::milliseconds kLogInterval{60'000};

}  // namespace

Result<std::unique_ptr<Exporter>> Exporter::create(ExporterOptions options,
                                                   telemetry::Logger& log) {
  COXSWAIN_ASSIGN_OR_RETURN(std::string endpoint, endpoint_of(options.endpoint, options.protocol));
  auto collector = options.protocol == Protocol::kGrpc ? make_grpc_collector(endpoint)
                                                       : make_http_collector(std::move(endpoint));
  return std::make_unique<Exporter>(std::move(options), std::move(collector), log);
}

Exporter::Exporter(ExporterOptions options,
                   std::unique_ptr<Collector> collector,
                   telemetry::Logger& log)
    : options_(std::move(options)), collector_(std::move(collector)), log_(log), thread_([this] {
        base::name_thread("otlp");
        loop();
      }) {}

Exporter::~Exporter() {
  {
    base::MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Exporter::add(std::vector<telemetry::Span> spans) {
  const std::size_t n = spans.size();
  bool full = false;
  {
    base::MutexLock lock(mu_);
    full = queue_.size() + n > options_.queue_spans_max;
    if (!full) {
      std::move(spans.begin(), spans.end(), std::back_inserter(queue_));
      if (!due_) due_ = Clock::now() + options_.interval;
    }
  }
  if (full) return tell_dropped(n, "too many spans wait for the collector");
  changed_.notify_one();
}

void Exporter::loop() {
  while (true) {
    std::vector<telemetry::Span> batch = take();
    if (batch.empty()) return;
    send(std::move(batch));
  }
}

std::vector<telemetry::Span> Exporter::take() {
  base::MutexLock lock(mu_);
  changed_.wait(lock, [this]() REQUIRES(mu_) { return stop_ || due_.has_value(); });
  const auto hurries = [this]() REQUIRES(mu_) {
    return stop_ || queue_.size() >= options_.spans_at_once;
  };
  if (due_) changed_.wait_until(lock, *due_, hurries);
  due_.reset();
  return std::exchange(queue_, {});
}

bool Exporter::pause(std::chrono::milliseconds duration) {
  base::MutexLock lock(mu_);
  return !changed_.wait_for(lock, duration, [this]() REQUIRES(mu_) { return stop_; });
}

void Exporter::send(std::vector<telemetry::Span> spans) {
  const TraceRequest request =
      encode(spans, {.service_name = options_.service_name, .version = options_.version});
  std::chrono::milliseconds wait = options_.first_pause;
  Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt, wait *= 2) {
    if (attempt > 0 && !pause(wait)) break;
    status = collector_->send(request, options_.patience);
    if (status.code() != Code::kUnavailable) break;
  }
  if (!status.ok()) tell_dropped(spans.size(), status.message());
}

void Exporter::tell_dropped(std::uint64_t n_spans, const std::string& why) {
  log_.warn_limited("otlp",
                    kLogInterval,
                    "traces were not delivered",
                    {{"spans", n_spans},
                     {"endpoint", std::string_view(options_.endpoint)},
                     {"reason", std::string_view(why)}});
}

}  // namespace coxswain::otlp
