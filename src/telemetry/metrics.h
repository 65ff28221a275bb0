#pragma once
// The metrics of the router process, under TGI's names where TGI has one: each is one member below, declared with its
// name and its help. docs/metrics.md explains them; a test compares the two.
//
// Thread rule: any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <coxswain/stats.h>
#include <coxswain/types.h>

#include "telemetry/exposition.h"
#include "telemetry/failure_label.h"

namespace coxswain::telemetry {

enum class BatchMethod : std::uint8_t { kPrefill, kDecode };       // label `method`
enum class PriorityClass : std::uint8_t { kLow, kNormal, kHigh };  // label `priority`

// The series of one family, one for each value of the enumeration that labels it.
template <typename Metric, typename Label, std::size_t kCount>
struct Labelled {
  std::array<Metric*, kCount> series{};
  Metric& operator[](Label label) const { return *series[static_cast<std::size_t>(label)]; }
};
template <typename Metric>
using ByFailure = Labelled<Metric, FailureLabel, 8>;
template <typename Metric>
using ByMethod = Labelled<Metric, BatchMethod, 2>;
template <typename Metric>
using ByFinish = Labelled<Metric, FinishReason, 3>;
template <typename Metric>
using ByPriority = Labelled<Metric, PriorityClass, 3>;
template <typename Metric>
using ByWait = Labelled<Metric, WaitReason, kWaitReasonNames.size()>;

struct MetricsOptions {
  std::uint32_t input_tokens_max = 4096;  // for the bucket bounds of the length histograms
  std::uint32_t total_tokens_max = 4096;
  // Under which vLLM's names of what there is are shown, too, as `model_name`; empty: they are not.
  std::string vllm_model_name = {};
};

class Metrics {
 public:
  explicit Metrics(const MetricsOptions& options);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Without the end of a page (Registry::render()).
  std::string render(TextFormat format = TextFormat::kPrometheus) const {
    return all_.render(format);
  }

 private:
  void add_vllm_names();
  Counter& counter(std::string_view name, std::string_view help);
  ByFailure<Counter> counters_by_failure(std::string_view name, std::string_view help);
  ByMethod<Counter> counters_by_method(std::string_view name, std::string_view help);
  ByFinish<Counter> counters_by_finish(std::string_view name, std::string_view help);
  ByWait<Counter> counters_by_wait(std::string_view name, std::string_view help);
  Gauge& gauge(std::string_view name, std::string_view help);
  ByPriority<Gauge> gauges_by_priority(std::string_view name, std::string_view help);
  // In seconds.
  Histogram& duration(std::string_view name, std::string_view help);
  ByMethod<Histogram> durations_by_method(std::string_view name, std::string_view help);
  // In tokens, up to `tokens_max`.
  Histogram& length(std::string_view name, std::string_view help, std::uint32_t tokens_max);
  Histogram& batch_size(std::string_view name, std::string_view help);

  MetricsOptions options_;
  Registry all_;

 public:
  // ---- requests ----
  Counter& request_count = counter("tgi_request_count", "Requests, each client request once");
  Counter& request_success = counter("tgi_request_success", "Requests answered in full");
  ByFailure<Counter> request_failure =
      counters_by_failure("tgi_request_failure", "Requests that failed, by cause");
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
  Histogram& request_input_length =
      length("tgi_request_input_length", "Tokens of the prompt", options_.input_tokens_max);
  Histogram& request_max_new_tokens = length("tgi_request_max_new_tokens",
                                             "Tokens that the request may generate",
                                             options_.total_tokens_max);
  Histogram& request_generated_tokens = length(
      "tgi_request_generated_tokens", "Tokens generated for a request", options_.total_tokens_max);
  Histogram& time_to_first_token_duration =
      duration("tgi_time_to_first_token_duration", "Seconds from arrival to the first token");
  Histogram& inter_token_duration =
      duration("tgi_inter_token_duration", "Seconds from a step's tokens of an answer to the next");
  Counter& generated_tokens = counter("tgi_generated_tokens_total", "Tokens of all answers so far");
  ByFinish<Counter> sequence_finish = counters_by_finish(
      "tgi_sequence_finish_total", "Sequences that were answered, by why they ended");

  // ---- the queue and the batch ----
  Gauge& queue_size = gauge("tgi_queue_size", "Requests that wait for a step");
  ByPriority<Gauge> queue_size_by_priority = gauges_by_priority(
      "tgi_queue_size_by_priority", "Requests that wait for a step, by their priority");
  ByWait<Counter> queue_head_steps = counters_by_wait(
      "tgi_queue_head_steps_total", "Steps, by why the head of the queue was not admitted");
  Counter& itl_floor_steps = counter("tgi_itl_floor_steps_total",
                                     "Steps whose least work is longer than the latency target");
  Gauge& batch_current_size = gauge("tgi_batch_current_size", "Requests in the running batch");
  Gauge& batch_current_max_tokens =
      gauge("tgi_batch_current_max_tokens", "Tokens that the running batch may come to hold");
  Gauge& batch_max_total_tokens =
      gauge("tgi_batch_max_total_tokens", "Tokens that the KV cache holds");
  Histogram& batch_next_size = batch_size("tgi_batch_next_size", "Requests that start together");
  ByMethod<Counter> batch_inference_count =
      counters_by_method("tgi_batch_inference_count", "Steps sent to the shards");
  ByMethod<Counter> batch_inference_success =
      counters_by_method("tgi_batch_inference_success", "Steps that succeeded");
  ByMethod<Counter> batch_inference_failure =
      counters_by_method("tgi_batch_inference_failure", "Steps that failed");
  ByMethod<Histogram> batch_inference_duration = durations_by_method(
      "tgi_batch_inference_duration", "Seconds of a step as the router sees it");
  ByMethod<Histogram> batch_forward_duration =
      durations_by_method("tgi_batch_forward_duration", "Seconds of the forward pass");
  ByMethod<Histogram> batch_decode_duration = durations_by_method(
      "tgi_batch_decode_duration", "Seconds spent in choosing tokens and turning them into text");
  Histogram& request_skipped_tokens =
      batch_size("tgi_request_skipped_tokens",
                 "Tokens of a request and a step beyond one, where some might be guessed");
  Counter& draft_tokens = counter("tgi_draft_tokens_total", "Tokens guessed ahead and computed");
  Counter& draft_tokens_accepted =
      counter("tgi_draft_tokens_accepted_total", "Of these, tokens that were right");

  // ---- what TGI's boards ask for and never happens here ----
  ByMethod<Histogram> batch_filter_duration =
      durations_by_method("tgi_batch_filter_duration", "Always empty: batches are not filtered");
  ByMethod<Histogram> batch_concat_duration =
      durations_by_method("tgi_batch_concat_duration", "Always empty: batches are not joined");
  Counter& batch_concat = counter("tgi_batch_concat", "Always 0: batches are not joined");

  // ---- the KV cache ----
  Gauge& kv_blocks_total = gauge("tgi_kv_blocks_total", "Blocks of the KV cache");
  Gauge& kv_blocks_free = gauge("tgi_kv_blocks_free", "Blocks that hold nothing");
  Gauge& kv_blocks_cached =
      gauge("tgi_kv_blocks_cached", "Blocks that hold prefixes nobody uses now");
  Gauge& kv_blocks_leased = gauge("tgi_kv_blocks_leased", "Blocks in use by requests");
  Gauge& kv_blocks_retiring =
      gauge("tgi_kv_blocks_retiring", "Blocks that the last submitted steps still name");
  Counter& prefix_cache_hit_tokens =
      counter("tgi_prefix_cache_hit_tokens_total", "Prompt tokens taken from the KV cache");
  Counter& prefix_cache_copied_tokens =
      counter("tgi_prefix_cache_copied_tokens_total",
              "Of the prompt tokens taken from the KV cache, those in a block that was copied");
  Counter& prefix_cache_hits =
      counter("tgi_prefix_cache_hits_total",
              "Requests whose prompt was in the KV cache, but for its last block");
  Counter& prefix_cache_partial_hits = counter(
      "tgi_prefix_cache_partial_hits_total", "Requests of whose prompt a part was in the KV cache");
  Counter& prefix_cache_misses = counter("tgi_prefix_cache_misses_total",
                                         "Requests of whose prompt nothing was in the KV cache");
  Counter& kv_tier_blocks_offloaded = counter("tgi_kv_tier_blocks_offloaded_total",
                                              "Blocks kept in memory or files behind the KV cache");
  Counter& kv_tier_blocks_onboarded =
      counter("tgi_kv_tier_blocks_onboarded_total", "Blocks brought back into the KV cache");
  Counter& kv_tier_memory_blocks_onboarded =
      counter("tgi_kv_tier_memory_blocks_onboarded_total", "Of these, blocks from memory");
  Counter& kv_tier_paused_blocks_offloaded =
      counter("tgi_kv_tier_paused_blocks_offloaded_total",
              "Of the blocks kept, those of requests that were paused");
  Counter& kv_tier_paused_blocks_onboarded =
      counter("tgi_kv_tier_paused_blocks_onboarded_total",
              "Of the blocks brought back, those of requests that go on after a pause");
  Counter& kv_tier_blocks_refused =
      counter("tgi_kv_tier_blocks_refused_total", "Blocks that were not right: removed");
  Counter& kv_tier_blocks_skipped = counter("tgi_kv_tier_blocks_skipped_total",
                                            "Blocks that could not be written in time or at all");
  Gauge& kv_tier_blocks = gauge("tgi_kv_tier_blocks", "Blocks in files");
  Gauge& kv_tier_bytes = gauge("tgi_kv_tier_bytes", "Bytes of these files");
  Gauge& kv_tier_memory_blocks = gauge("tgi_kv_tier_memory_blocks", "Blocks in memory");
  Gauge& kv_tier_memory_bytes = gauge("tgi_kv_tier_memory_bytes", "Bytes that these take");
  Counter& prompt_tokens = counter("tgi_prompt_tokens_total", "Prompt tokens of all requests");
  Counter& preemptions =
      counter("tgi_preemptions_total", "Times that a request was paused for lack of blocks");

  // ---- the processes ----
  Gauge& replica_up = gauge("tgi_replica_up", "Shards that answer: of a single one, 1 or 0");
  Counter& replica_restarts = counter("tgi_replica_restarts_total", "Times a shard was lost");
  Counter& request_resumes =
      counter("tgi_request_resumes_total",
              "Sequences that went on after the shard that computed them was lost");
  Counter& kv_handovers = counter(
      "tgi_kv_handovers_total", "Sequences that went on in another replica behind their KV blocks");
  Counter& kv_handovers_recomputed =
      counter("tgi_kv_handovers_recomputed_total",
              "Of those that were to, such whose prompt was computed again");
  Counter& kv_handover_bytes = counter("tgi_kv_handover_bytes_total", "Bytes of these blocks");
  Histogram& kv_handover_duration =
      duration("tgi_kv_handover_duration", "Seconds from the first token to the other replica");
  Gauge& process_start_time =
      gauge("process_start_time_seconds", "Start of the process, seconds since 1970 in UTC");
};

// What one of several queues adds to tgi_queue_size and to its parts by priority.
//
// Thread rule: set() on one thread at a time.
class QueuePart {
 public:
  explicit QueuePart(Metrics& metrics)
      : all_(metrics.queue_size),
        low_(metrics.queue_size_by_priority[PriorityClass::kLow]),
        normal_(metrics.queue_size_by_priority[PriorityClass::kNormal]),
        high_(metrics.queue_size_by_priority[PriorityClass::kHigh]) {}

  void set(std::uint32_t n_low, std::uint32_t n_normal, std::uint32_t n_high) {
    all_.set(static_cast<double>(n_low) + n_normal + n_high);
    low_.set(n_low);
    normal_.set(n_normal);
    high_.set(n_high);
  }

 private:
  GaugePart all_;
  GaugePart low_;
  GaugePart normal_;
  GaugePart high_;
};

}  // namespace coxswain::telemetry
