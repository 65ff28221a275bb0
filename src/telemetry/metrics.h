#pragma once
// Metrics of the Prometheus text format, under TGI's names where TGI has one. Each is declared
// once, in metrics.cc.
//
// Thread rule: any thread; counters and gauges are one atomic each, histograms take a short lock of
// their own.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace coxswain::telemetry {

class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {
 public:
  void set(double v) { value_.store(v, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};

// Why a request failed: the label `err` of tgi_request_failure.
enum class FailureLabel : std::uint8_t {
  kOverloaded,
  kValidation,
  kGeneration,
  kIncomplete,
  kDropped,
  kTemplate,
  kDeadline,
  kUnavailable
};
enum class BatchMethod : std::uint8_t { kPrefill, kDecode };  // label `method`

struct MetricsOptions {
  std::uint32_t input_tokens_max = 4096;  // for the bucket bounds of the length histograms
  std::uint32_t total_tokens_max = 4096;
};

// The metrics of one router process. References stay valid as long as this object.
class Metrics {
 public:
  explicit Metrics(const MetricsOptions& options);
  ~Metrics();

  Counter& request_count();
  Counter& request_success();
  Counter& request_failure(FailureLabel err);
  Histogram& request_duration();  // seconds, as all *_duration
  Histogram& request_validation_duration();
  Histogram& request_queue_duration();
  Histogram& request_inference_duration();
  Histogram& request_mean_time_per_token_duration();
  Histogram& request_input_length();
  Histogram& request_max_new_tokens();
  Histogram& request_generated_tokens();
  Histogram& time_to_first_token_duration();
  Gauge& queue_size();
  Gauge& batch_current_size();
  Gauge& batch_current_max_tokens();
  Gauge& batch_max_total_tokens();
  Histogram& batch_next_size();
  Counter& batch_inference_count(BatchMethod method);
  Counter& batch_inference_success(BatchMethod method);
  Counter& batch_inference_failure(BatchMethod method);
  Histogram& batch_inference_duration(BatchMethod method);
  Histogram& batch_forward_duration(BatchMethod method);
  Histogram& batch_decode_duration(BatchMethod method);
  Gauge& kv_blocks_total();
  Gauge& kv_blocks_free();
  Gauge& kv_blocks_cached();
  Gauge& kv_blocks_leased();
  Gauge& kv_blocks_retiring();
  Counter& prefix_cache_hit_tokens();
  Counter& prompt_tokens();
  Counter& preemptions();
  Gauge& replica_up();
  Counter& replica_restarts();

  std::string render() const;  // text/plain; version=0.0.4

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::telemetry
