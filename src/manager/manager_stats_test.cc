#include "manager/manager_stats.h"

#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

#include "json/json.h"

namespace coxswain::manager {
namespace {

IterationStats step_of(std::uint32_t n_scheduled, std::uint32_t n_active) {
  IterationStats out;
  out.n_scheduled = n_scheduled;
  out.n_active = n_active;
  out.n_context = 1;
  out.n_generation = n_scheduled - 1;
  out.n_context_tokens = 17;
  out.n_decoded_tokens = 3;
  out.batch_size_max = 64;
  out.n_paused = 2;
  out.kv = {.blocks_max = 100, .blocks_free = 70, .blocks_used = 30, .block_tokens = 16, .use = {}};
  out.wait = WaitReason::kNoBlocks;
  return out;
}

// The members of `json`, without time and memory.
std::string keys_of(const std::string& json) {
  const json::Value value = json::parse(json).value();
  std::string out;
  for (const auto& [key, member] : value.as_object())
    if (key != "Timestamp" && key != "Runtime CPU Memory Usage")
      out += key + "=" + json::write(member) + "\n";
  return out;
}

TEST(ManagerStats, HasTheKeysOfInflightBatching) {
  StatsCollector collector(BatchingType::kInflight);
  const ManagerStats stats = collector.next(step_of(4, 4), 5, 0);
  EXPECT_EQ(keys_of(json_of(stats)),
            "Iteration Counter=1\n"
            "Active Request Count=5\n"
            "Max Request Count=64\n"
            "Max KV cache blocks=100\n"
            "Free KV cache blocks=70\n"
            "Used KV cache blocks=30\n"
            "Tokens per KV cache block=16\n"
            "Scheduled Requests=4\n"
            "Context Requests=1\n"
            "Paused Requests=2\n"
            "Total Context Tokens=17\n"
            "Generation Requests=3\n"
            "MicroBatch ID=0\n"
            "Queue Head Waits For=\"no_blocks\"\n");
}

TEST(ManagerStats, V1CountsTheSlotsOfItsBatch) {
  StatsCollector collector(BatchingType::kV1);
  EXPECT_EQ(collector.next(step_of(4, 4), 4, 8).n_empty_slots, 0U);
  EXPECT_EQ(collector.next(step_of(3, 3), 4, 8).n_empty_slots, 1U);
  EXPECT_EQ(collector.next(step_of(1, 0), 4, 8).n_empty_slots, 3U);
  const ManagerStats next = collector.next(step_of(2, 2), 4, 8);
  EXPECT_EQ(next.n_empty_slots, 0U);
  EXPECT_EQ(next.iteration, 4U);
  const std::string keys = keys_of(json_of(next));
  EXPECT_NE(keys.find("Max Request Count=8\n"), std::string::npos);
  EXPECT_NE(keys.find("Total Context Tokens=17\nTotal Generation Tokens=3\n"
                      "Empty Generation Slots=0\n"),
            std::string::npos);
  EXPECT_EQ(keys.find("MicroBatch"), std::string::npos);
}

TEST(ManagerStats, WritesGauges) {
  StatsCollector collector(BatchingType::kInflightFused);
  const std::string text = gauges_of(collector.next(step_of(4, 4), 5, 9));
  for (const char* line : {"nv_trt_llm_request_metrics{request_type=\"active\"} 5\n",
                           "nv_trt_llm_request_metrics{request_type=\"max\"} 9\n",
                           "nv_trt_llm_request_metrics{request_type=\"scheduled\"} 4\n",
                           "nv_trt_llm_request_metrics{request_type=\"context\"} 1\n",
                           "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\"} 30\n",
                           "{inflight_batcher_specific_metric=\"generation_requests\"} 3\n",
                           "nv_trt_llm_general_metrics{general_type=\"iteration_counter\"} 1\n",
                           "# TYPE nv_trt_llm_runtime_memory_metrics gauge\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(text.find("nv_trt_llm_v1_metrics"), std::string::npos);
}

TEST(ManagerStats, TimesAreLocal) {
  const std::time_t time = 1'700'000'000;
  std::tm parts{};
  localtime_r(&time, &parts);
  const std::string text = timestamp_of(time);
  ASSERT_EQ(text.size(), 19U);
  EXPECT_EQ(std::stoi(text.substr(0, 2)), parts.tm_mon + 1);
  EXPECT_EQ(std::stoi(text.substr(3, 2)), parts.tm_mday);
  EXPECT_EQ(text.substr(6, 4), "2023");
  EXPECT_EQ(std::stoi(text.substr(11, 2)), parts.tm_hour);
}

}  // namespace
}  // namespace coxswain::manager
