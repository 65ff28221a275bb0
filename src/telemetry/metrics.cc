// Every metric of the product, declared once. docs/metrics.md explains them; a test compares the
// names.

#include "telemetry/metrics.h"

#include <array>
#include <chrono>
#include <vector>

#include "telemetry/exposition.h"

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

struct Metrics::Impl {
  explicit Impl(const MetricsOptions& options)
      : request_input_length(all.histogram("tgi_request_input_length",
                                           "Tokens of the prompt",
                                           length_bounds(options.input_tokens_max))),
        request_max_new_tokens(all.histogram("tgi_request_max_new_tokens",
                                             "Tokens that the request may generate",
                                             length_bounds(options.total_tokens_max))),
        request_generated_tokens(all.histogram("tgi_request_generated_tokens",
                                               "Tokens generated for a request",
                                               length_bounds(options.total_tokens_max))) {
    process_start_time.set(seconds_since_epoch());
  }

  using Counters2 = std::array<Counter*, 2>;
  using Histograms2 = std::array<Histogram*, 2>;

  Histogram& duration(std::string_view name, std::string_view help) {
    return all.histogram(name, help, duration_bounds());
  }
  Counters2 counters_by_method(std::string_view name, std::string_view help) {
    return {&all.counter(name, help, kMethodLabels[0]), &all.counter(name, help, kMethodLabels[1])};
  }
  Histograms2 durations_by_method(std::string_view name, std::string_view help) {
    return {&all.histogram(name, help, duration_bounds(), kMethodLabels[0]),
            &all.histogram(name, help, duration_bounds(), kMethodLabels[1])};
  }
  std::array<Counter*, kFailureLabels.size()> failures() {
    std::array<Counter*, kFailureLabels.size()> out{};
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] =
          &all.counter("tgi_request_failure", "Requests that failed, by cause", kFailureLabels[i]);
    }
    return out;
  }

  Registry all;

  Counter& request_count = all.counter("tgi_request_count", "Requests, each client request once");
  Counter& request_success = all.counter("tgi_request_success", "Requests answered in full");
  std::array<Counter*, kFailureLabels.size()> request_failure = failures();
  Histogram& request_duration =
      duration("tgi_request_duration", "Seconds from arrival to the end of the answer");
  Histogram& request_validation_duration =
      duration("tgi_request_validation_duration", "Seconds spent in checks and tokenisation");
  Histogram& request_queue_duration =
      duration("tgi_request_queue_duration", "Seconds in the queue before the first step");
  Histogram& request_inference_duration =
      duration("tgi_request_inference_duration", "Seconds from the first step to the last token");
  Histogram& request_mean_time_per_token_duration = duration(
      "tgi_request_mean_time_per_token_duration", "Seconds of inference for each generated token");
  Histogram& request_input_length;
  Histogram& request_max_new_tokens;
  Histogram& request_generated_tokens;
  Histogram& time_to_first_token_duration =
      duration("tgi_time_to_first_token_duration", "Seconds from arrival to the first token");

  Gauge& queue_size = all.gauge("tgi_queue_size", "Requests that wait for a step");
  Gauge& batch_current_size = all.gauge("tgi_batch_current_size", "Requests in the running batch");
  Gauge& batch_current_max_tokens =
      all.gauge("tgi_batch_current_max_tokens", "Tokens that the running batch may come to hold");
  Gauge& batch_max_total_tokens =
      all.gauge("tgi_batch_max_total_tokens", "Tokens that the KV cache holds");
  Histogram& batch_next_size =
      all.histogram("tgi_batch_next_size", "Requests that start together", batch_size_bounds());
  Counters2 batch_inference_count =
      counters_by_method("tgi_batch_inference_count", "Steps sent to the shards");
  Counters2 batch_inference_success =
      counters_by_method("tgi_batch_inference_success", "Steps that succeeded");
  Counters2 batch_inference_failure =
      counters_by_method("tgi_batch_inference_failure", "Steps that failed");
  Histograms2 batch_inference_duration = durations_by_method(
      "tgi_batch_inference_duration", "Seconds of a step as the router sees it");
  Histograms2 batch_forward_duration =
      durations_by_method("tgi_batch_forward_duration", "Seconds of the forward pass");
  Histograms2 batch_decode_duration = durations_by_method(
      "tgi_batch_decode_duration", "Seconds spent in choosing tokens and turning them into text");

  Gauge& kv_blocks_total = all.gauge("tgi_kv_blocks_total", "Blocks of the KV cache");
  Gauge& kv_blocks_free = all.gauge("tgi_kv_blocks_free", "Blocks that hold nothing");
  Gauge& kv_blocks_cached =
      all.gauge("tgi_kv_blocks_cached", "Blocks that hold prefixes nobody uses now");
  Gauge& kv_blocks_leased = all.gauge("tgi_kv_blocks_leased", "Blocks in use by requests");
  Gauge& kv_blocks_retiring =
      all.gauge("tgi_kv_blocks_retiring", "Blocks that the last submitted steps still name");
  Counter& prefix_cache_hit_tokens =
      all.counter("tgi_prefix_cache_hit_tokens_total", "Prompt tokens taken from the KV cache");
  Counter& prompt_tokens = all.counter("tgi_prompt_tokens_total", "Prompt tokens of all requests");
  Counter& preemptions =
      all.counter("tgi_preemptions_total", "Times that a request was paused for lack of blocks");
  Gauge& replica_up = all.gauge("tgi_replica_up", "1 if the shard answers, otherwise 0");
  Counter& replica_restarts = all.counter("tgi_replica_restarts_total", "Times a shard was lost");
  Gauge& process_start_time =
      all.gauge("process_start_time_seconds", "Start of the process, seconds since 1970 in UTC");
};

Metrics::Metrics(const MetricsOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Metrics::~Metrics() = default;

Counter& Metrics::request_count() {
  return impl_->request_count;
}
Counter& Metrics::request_success() {
  return impl_->request_success;
}
Counter& Metrics::request_failure(FailureLabel err) {
  return *impl_->request_failure[static_cast<std::size_t>(err)];
}
Histogram& Metrics::request_duration() {
  return impl_->request_duration;
}
Histogram& Metrics::request_validation_duration() {
  return impl_->request_validation_duration;
}
Histogram& Metrics::request_queue_duration() {
  return impl_->request_queue_duration;
}
Histogram& Metrics::request_inference_duration() {
  return impl_->request_inference_duration;
}
Histogram& Metrics::request_mean_time_per_token_duration() {
  return impl_->request_mean_time_per_token_duration;
}
Histogram& Metrics::request_input_length() {
  return impl_->request_input_length;
}
Histogram& Metrics::request_max_new_tokens() {
  return impl_->request_max_new_tokens;
}
Histogram& Metrics::request_generated_tokens() {
  return impl_->request_generated_tokens;
}
Histogram& Metrics::time_to_first_token_duration() {
  return impl_->time_to_first_token_duration;
}
Gauge& Metrics::queue_size() {
  return impl_->queue_size;
}
Gauge& Metrics::batch_current_size() {
  return impl_->batch_current_size;
}
Gauge& Metrics::batch_current_max_tokens() {
  return impl_->batch_current_max_tokens;
}
Gauge& Metrics::batch_max_total_tokens() {
  return impl_->batch_max_total_tokens;
}
Histogram& Metrics::batch_next_size() {
  return impl_->batch_next_size;
}
Counter& Metrics::batch_inference_count(BatchMethod method) {
  return *impl_->batch_inference_count[static_cast<std::size_t>(method)];
}
Counter& Metrics::batch_inference_success(BatchMethod method) {
  return *impl_->batch_inference_success[static_cast<std::size_t>(method)];
}
Counter& Metrics::batch_inference_failure(BatchMethod method) {
  return *impl_->batch_inference_failure[static_cast<std::size_t>(method)];
}
Histogram& Metrics::batch_inference_duration(BatchMethod method) {
  return *impl_->batch_inference_duration[static_cast<std::size_t>(method)];
}
Histogram& Metrics::batch_forward_duration(BatchMethod method) {
  return *impl_->batch_forward_duration[static_cast<std::size_t>(method)];
}
Histogram& Metrics::batch_decode_duration(BatchMethod method) {
  return *impl_->batch_decode_duration[static_cast<std::size_t>(method)];
}
Gauge& Metrics::kv_blocks_total() {
  return impl_->kv_blocks_total;
}
Gauge& Metrics::kv_blocks_free() {
  return impl_->kv_blocks_free;
}
Gauge& Metrics::kv_blocks_cached() {
  return impl_->kv_blocks_cached;
}
Gauge& Metrics::kv_blocks_leased() {
  return impl_->kv_blocks_leased;
}
Gauge& Metrics::kv_blocks_retiring() {
  return impl_->kv_blocks_retiring;
}
Counter& Metrics::prefix_cache_hit_tokens() {
  return impl_->prefix_cache_hit_tokens;
}
Counter& Metrics::prompt_tokens() {
  return impl_->prompt_tokens;
}
Counter& Metrics::preemptions() {
  return impl_->preemptions;
}
Gauge& Metrics::replica_up() {
  return impl_->replica_up;
}
Counter& Metrics::replica_restarts() {
  return impl_->replica_restarts;
}

std::string Metrics::render() const {
  return impl_->all.render();
}

}  // namespace coxswain::telemetry
