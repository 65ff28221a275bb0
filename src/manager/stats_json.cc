#include "manager/stats_json.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
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

}  // namespace

std::string timestamp_of(std::int64_t unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  std::array<char, 32> text{};
  if (localtime_r(&time, &parts) == nullptr) return {};
  return {text.data(), std::strftime(text.data(), text.size(), "%m-%d-%Y %H:%M:%S", &parts)};
}

std::string StatsWriter::json(const IterationStats& step, const IterationOfManager& of) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  json::Object out;
  const auto count = [&](const char* key, std::uint64_t value) {
    out.append_new(key, json::Value::unsigned_integer(value));
  };
  out.append_new("Timestamp",
                 timestamp_of(std::chrono::duration_cast<std::chrono::seconds>(now).count()));
  count("Iteration Counter", of.iteration);
  count("Active Request Count", of.n_active);
  count("Max Request Count", of.n_max > 0 ? of.n_max : step.batch_size_max);
  count("Runtime CPU Memory Usage", resident_bytes());
  count("Max KV cache blocks", step.kv.blocks_max);
  count("Free KV cache blocks", step.kv.blocks_free);
  count("Used KV cache blocks", step.kv.blocks_used);
  count("Tokens per KV cache block", step.kv.block_tokens);
  count("Scheduled Requests", step.n_scheduled);
  count("Context Requests", step.n_context);
  count("Paused Requests", of.n_paused);
  if (type_ == BatchingType::kV1) {
    n_slots_ = std::max(n_slots_, step.n_scheduled);
    count("Total Generation Tokens", step.n_decoded_tokens);
    count("Total Context Tokens", step.n_context_tokens);
    count("Empty Generation Slots", n_slots_ - step.n_scheduled);
    if (step.n_active == 0) n_slots_ = 0;  // the batch has ended
  } else {
    count("Generation Requests", step.n_generation);
    count("Total Context Tokens", step.n_context_tokens);
    count("MicroBatch ID", 0);
  }
  out.append_new("Queue Head Waits For", name_of(step.wait));
  return json::write(json::Value(std::move(out)));
}

}  // namespace coxswain::manager
