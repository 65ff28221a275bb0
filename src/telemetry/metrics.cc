#include "telemetry/metrics.h"

#include <chrono>
#include <functional>
#include <utility>
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

// As a value of a label has to be written.
std::string escaped_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out;
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
constexpr std::array<std::string_view, 3> kFinishLabels{
    "reason=\"length\"", "reason=\"eos_token\"", "reason=\"stop_sequence\""};
constexpr std::array<std::string_view, 3> kPriorityLabels{
    "priority=\"low\"", "priority=\"normal\"", "priority=\"high\""};
constexpr std::array<std::string_view, 2> kMethodLabels{"method=\"prefill\"", "method=\"decode\""};

}  // namespace

Metrics::Metrics(const MetricsOptions& options) : options_(options) {
  process_start_time.set(seconds_since_epoch());
  if (!options_.vllm_model_name.empty()) add_vllm_names();
}

// Those that the dashboards and autoscalers made for vLLM read, as far as we measure what they mean. docs/metrics.md
// has the list.
void Metrics::add_vllm_names() {
  const std::string labels =
      "model_name=\"" + escaped_label(options_.vllm_model_name) + "\",engine=\"0\"";
  const auto computed = [&](std::string_view name,
                            std::string_view help,
                            std::string_view type,
                            std::function<double()> value,
                            std::string_view more = {}) {
    all_.computed(name, help, type, std::move(value), labels + std::string(more));
  };
  const auto gauge_of = [&](std::string_view name, std::string_view help, const Gauge& gauge) {
    computed(name, help, "gauge", [&gauge] { return gauge.value(); });
  };
  const auto count = [](const Counter& counter) {
    return [&counter] { return static_cast<double>(counter.value()); };
  };
  gauge_of("vllm:num_requests_running", "Requests in the running batch", batch_current_size);
  gauge_of("vllm:num_requests_waiting", "Requests that wait for a step", queue_size);
  const auto use = [this] {
    const double total = kv_blocks_total.value();
    const double used = kv_blocks_leased.value() + kv_blocks_retiring.value();
    return total > 0 ? used / total : 0;
  };
  // The second is what older versions called it.
  for (const char* name : {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"})
    computed(name, "Part of the KV cache in use, 1 = all", "gauge", use);
  const auto counter_of = [&](std::string_view name, std::string_view help, const Counter& of) {
    computed(name, help, "counter", count(of));
  };
  counter_of("vllm:num_preemptions_total", "Pauses for lack of blocks", preemptions);
  counter_of("vllm:prefix_cache_queries_total", "Prompt tokens looked for", prompt_tokens);
  counter_of("vllm:prefix_cache_hits_total", "Prompt tokens found", prefix_cache_hit_tokens);
  counter_of("vllm:prompt_tokens_total", "Prompt tokens", prompt_tokens);
  counter_of("vllm:generation_tokens_total", "Generated tokens", generated_tokens);
  const auto success = [&](std::function<double()> value, std::string_view reason) {
    computed("vllm:request_success_total",
             "Sequences that ended, by why",
             "counter",
             std::move(value),
             ",finished_reason=\"" + std::string(reason) + "\"");
  };
  success(
      [this] {
        return static_cast<double>(sequence_finish[FinishReason::kEosToken].value() +
                                   sequence_finish[FinishReason::kStopSequence].value());
      },
      "stop");
  success(count(sequence_finish[FinishReason::kLength]), "length");
  success(count(request_failure[FailureLabel::kDropped]), "abort");
  const auto times = [&](std::string_view name, std::string_view help, const Histogram& of) {
    all_.alias(name, help, of, labels);
  };
  times("vllm:time_to_first_token_seconds", "To the first token", time_to_first_token_duration);
  times("vllm:inter_token_latency_seconds", "From token to token", inter_token_duration);
  times("vllm:time_per_output_token_seconds", "The same, as it was called", inter_token_duration);
  times("vllm:request_time_per_output_token_seconds",
        "Mean of a request from token to token",
        request_mean_time_per_token_duration);
  times("vllm:e2e_request_latency_seconds", "Of the whole request", request_duration);
  times("vllm:request_queue_time_seconds", "In the queue", request_queue_duration);
  times("vllm:request_inference_time_seconds", "In steps", request_inference_duration);
  times("vllm:request_prompt_tokens", "Tokens of the prompt", request_input_length);
  times("vllm:request_generation_tokens", "Tokens of the answer", request_generated_tokens);
  times("vllm:request_params_max_tokens", "Tokens that may come", request_max_new_tokens);
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

ByFinish<Counter> Metrics::counters_by_finish(std::string_view name, std::string_view help) {
  ByFinish<Counter> out;
  for (std::size_t i = 0; i < out.series.size(); ++i)
    out.series[i] = &all_.counter(name, help, kFinishLabels[i]);
  return out;
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

ByPriority<Gauge> Metrics::gauges_by_priority(std::string_view name, std::string_view help) {
  ByPriority<Gauge> out;
  for (std::size_t i = 0; i < out.series.size(); ++i)
    out.series[i] = &all_.gauge(name, help, kPriorityLabels[i]);
  return out;
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
