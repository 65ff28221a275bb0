#include "telemetry/metrics.h"

#include <chrono>
#include <vector>

namespace coxswain::telemetry {
namespace {

// TGI's bounds for times: 35 of them, each 1.5 times the one before, in seconds.
std::vector<double> duration_bounds() {
  std::vector<double> bounds;
  double bound = 0.0001;
  for (int i = 0; i < 35; ++i) {
    bound *= 1.5;
    bounds.push_back(bound);
  }
  return bounds;
}

// TGI's bounds for lengths: 100 equal steps up to the limit.
std::vector<double> length_bounds(std::uint32_t tokens_max) {
  std::vector<double> bounds;
  const double step = static_cast<double>(tokens_max > 0 ? tokens_max : 1) / 100;
  for (int i = 1; i <= 100; ++i) bounds.push_back(step * i);
  return bounds;
}

std::vector<double> batch_size_bounds() {
  std::vector<double> bounds;
  for (int i = 1; i <= 1024; ++i) bounds.push_back(i);
  return bounds;
}

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// In the order of FailureLabel and of BatchMethod.
constexpr std::array<std::string_view, 8> kFailureLabels{"err=\"overloaded\"",
                                                         "err=\"validation\"",
                                                         "err=\"generation\"",
                                                         "err=\"incomplete\"",
                                                         "err=\"dropped\"",
                                                         "err=\"template\"",
                                                         "err=\"deadline\"",
                                                         "err=\"unavailable\""};
constexpr std::array<std::string_view, 2> kMethodLabels{"method=\"prefill\"", "method=\"decode\""};

}  // namespace

Metrics::Metrics(const MetricsOptions& options) : options_(options) {
  process_start_time.set(seconds_since_epoch());
}

Counter& Metrics::counter(std::string_view name, std::string_view help) {
  return all_.counter(name, help);
}

ByFailure<Counter> Metrics::counters_by_failure(std::string_view name, std::string_view help) {
  ByFailure<Counter> out;
  for (std::size_t i = 0; i < out.series.size(); ++i) {
    out.series[i] = &all_.counter(name, help, kFailureLabels[i]);
  }
  return out;
}

ByMethod<Counter> Metrics::counters_by_method(std::string_view name, std::string_view help) {
  return {
      {&all_.counter(name, help, kMethodLabels[0]), &all_.counter(name, help, kMethodLabels[1])}};
}

ByWait<Counter> Metrics::counters_by_wait(std::string_view name, std::string_view help) {
  ByWait<Counter> out;
  for (std::size_t i = 0; i < out.series.size(); ++i) {
    const std::string label = "reason=\"" + std::string(kWaitReasonNames[i]) + "\"";
    out.series[i] = &all_.counter(name, help, label);
  }
  return out;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help) {
  return all_.gauge(name, help);
}

Histogram& Metrics::duration(std::string_view name, std::string_view help) {
  return all_.histogram(name, help, duration_bounds());
}

ByMethod<Histogram> Metrics::durations_by_method(std::string_view name, std::string_view help) {
  return {{&all_.histogram(name, help, duration_bounds(), kMethodLabels[0]),
           &all_.histogram(name, help, duration_bounds(), kMethodLabels[1])}};
}

Histogram& Metrics::length(std::string_view name, std::string_view help, std::uint32_t tokens_max) {
  return all_.histogram(name, help, length_bounds(tokens_max));
}

Histogram& Metrics::batch_size(std::string_view name, std::string_view help) {
  return all_.histogram(name, help, batch_size_bounds());
}

}  // namespace coxswain::telemetry
