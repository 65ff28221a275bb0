#include "manager/manager_stats.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string_view>
#include <unistd.h>

#include "json/json.h"

namespace coxswain::manager {
namespace {

// Of this process, in bytes; 0 where it cannot be told.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// One family of gauges, told apart by one label.
class Family {
 public:
  Family(std::string& out, std::string_view name, std::string_view label, std::string_view help)
      : out_(out), head_(std::string(name) + "{" + std::string(label) + "=\"") {
    out_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    out_.append("# TYPE ").append(name).append(" gauge\n");
  }
  void add(std::string_view value_of_label, std::uint64_t value) {
    out_.append(head_).append(value_of_label).append("\"} ");
    out_.append(std::to_string(value)).append("\n");
  }

 private:
  std::string& out_;
  const std::string head_;
};

}  // namespace

ManagerStats StatsCollector::next(const IterationStats& step,
                                  std::size_t n_active,
                                  std::uint32_t n_max) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  n_slots_ = std::max(n_slots_, step.n_scheduled);
  ManagerStats out{.is_v1 = is_v1_,
                   .iteration = ++iteration_,
                   .unix_seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                   .n_active = n_active,
                   .n_max = n_max > 0 ? n_max : step.batch_size_max,
                   .n_empty_slots = n_slots_ - step.n_scheduled,
                   .step = step};
  if (step.n_active == 0) n_slots_ = 0;  // the batch has ended
  return out;
}

std::string timestamp_of(std::int64_t unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  std::array<char, 32> text{};
  if (localtime_r(&time, &parts) == nullptr) return {};
  return {text.data(), std::strftime(text.data(), text.size(), "%m-%d-%Y %H:%M:%S", &parts)};
}

std::string json_of(const ManagerStats& stats) {
  const IterationStats& step = stats.step;
  json::Object out;
  const auto count = [&](const char* key, std::uint64_t value) {
    out.append_new(key, json::Value::unsigned_integer(value));
  };
  out.append_new("Timestamp", timestamp_of(stats.unix_seconds));
  count("Iteration Counter", stats.iteration);
  count("Active Request Count", stats.n_active);
  count("Max Request Count", stats.n_max);
  count("Runtime CPU Memory Usage", resident_bytes());
  count("Max KV cache blocks", step.kv.blocks_max);
  count("Free KV cache blocks", step.kv.blocks_free);
  count("Used KV cache blocks", step.kv.blocks_used);
  count("Tokens per KV cache block", step.kv.block_tokens);
  count("Scheduled Requests", step.n_scheduled);
  count("Context Requests", step.n_context);
  count("Paused Requests", step.n_paused);
  count("Total Context Tokens", step.n_context_tokens);
  if (stats.is_v1) {
    count("Total Generation Tokens", step.n_decoded_tokens);
    count("Empty Generation Slots", stats.n_empty_slots);
  } else {
    count("Generation Requests", step.n_generation);
    count("MicroBatch ID", 0);
  }
  out.append_new("Queue Head Waits For", name_of(step.wait));
  return json::write(json::Value(std::move(out)));
}

std::string gauges_of(const ManagerStats& stats) {
  const IterationStats& step = stats.step;
  std::string out;
  Family requests(
      out, "nv_trt_llm_request_metrics", "request_type", "requests of the last iteration");
  requests.add("active", stats.n_active);
  requests.add("max", stats.n_max);
  requests.add("scheduled", step.n_scheduled);
  requests.add("context", step.n_context);
  Family memory(
      out, "nv_trt_llm_runtime_memory_metrics", "memory_type", "bytes of the process in memory");
  memory.add("cpu", resident_bytes());
  Family blocks(out,
                "nv_trt_llm_kv_cache_block_metrics",
                "kv_cache_block_type",
                "blocks of the KV cache, and tokens of a block");
  blocks.add("max", step.kv.blocks_max);
  blocks.add("free", step.kv.blocks_free);
  blocks.add("used", step.kv.blocks_used);
  blocks.add("tokens_per", step.kv.block_tokens);
  if (stats.is_v1) {
    Family v1(out, "nv_trt_llm_v1_metrics", "v1_specific_metric", "of the batch that runs");
    v1.add("total_context_tokens", step.n_context_tokens);
    v1.add("total_generation_tokens", step.n_decoded_tokens);
    v1.add("empty_generation_slots", stats.n_empty_slots);
  } else {
    Family inflight(out,
                    "nv_trt_llm_inflight_batcher_metrics",
                    "inflight_batcher_specific_metric",
                    "of the last iteration");
    inflight.add("total_context_tokens", step.n_context_tokens);
    inflight.add("generation_requests", step.n_generation);
    inflight.add("micro_batch_id", 0);
  }
  Family general(
      out, "nv_trt_llm_general_metrics", "general_type", "counter and time of the last iteration");
  general.add("iteration_counter", stats.iteration);
  general.add("timestamp", static_cast<std::uint64_t>(stats.unix_seconds));
  return out;
}

}  // namespace coxswain::manager
