#include "telemetry/metrics.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "telemetry/exposition.h"

namespace coxswain::telemetry {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> lines_with(const std::string& text, const std::string& start) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(start)) out.push_back(line);
  }
  return out;
}

TEST(Registry, WritesTheTextFormat) {
  Registry registry;
  registry.counter("a_total", "Things", "kind=\"x\"").add(3);
  registry.counter("a_total", "Things", "kind=\"y\"");
  registry.gauge("b", "Level").set(0.25);
  Histogram& histogram = registry.histogram("c", "Times", {0.5, 1, 10}, "m=\"p\"");
  histogram.observe(0.5);
  histogram.observe(0.6);
  histogram.observe(100);
  histogram.observe(std::nan(""));
  EXPECT_EQ(registry.render(),
            "# HELP a_total Things\n# TYPE a_total counter\na_total{kind=\"x\"} 3\n"
            "a_total{kind=\"y\"} 0\n\n"
            "# HELP b Level\n# TYPE b gauge\nb 0.25\n\n"
            "# HELP c Times\n# TYPE c histogram\n"
            "c_bucket{m=\"p\",le=\"0.5\"} 1\nc_bucket{m=\"p\",le=\"1\"} 2\n"
            "c_bucket{m=\"p\",le=\"10\"} 2\nc_bucket{m=\"p\",le=\"+Inf\"} 3\n"
            "c_sum{m=\"p\"} 101.1\nc_count{m=\"p\"} 3\n\n");
}

// A counter that is not called so is none: its series keeps the name that it has in the other format.
TEST(Registry, WritesOpenMetrics) {
  Registry registry;
  registry.counter("a_total", "Things", "kind=\"x\"").add(3);
  registry.counter("b_count", "Of TGI").add(2);
  registry.gauge("c", "Level").set(0.25);
  registry.computed(
      "d", "Half", "gauge", [] { return 0.5; }, "m=\"p\"");
  registry.computed(
      "e_total", "Five", "counter", [] { return 5; }, "m=\"p\"");
  EXPECT_EQ(registry.render(TextFormat::kOpenMetrics),
            "# HELP a Things\n# TYPE a counter\na_total{kind=\"x\"} 3\n"
            "# HELP b_count Of TGI\n# TYPE b_count unknown\nb_count 2\n"
            "# HELP c Level\n# TYPE c gauge\nc 0.25\n"
            "# HELP d Half\n# TYPE d gauge\nd{m=\"p\"} 0.5\n"
            "# HELP e Five\n# TYPE e counter\ne_total{m=\"p\"} 5\n");
}

TEST(Registry, ABucketHasTheLastTraceThatFellIntoIt) {
  Registry registry;
  Histogram& histogram = registry.histogram("c", "Times", {0.5, 1});
  const TraceId trace{0x0A, 0xF7};
  const TraceId later{0x0B};
  histogram.observe(0.25, &later);
  histogram.observe(0.5, &trace);
  histogram.observe(0.75);
  histogram.observe(7, &later);
  const auto lines = lines_with(registry.render(TextFormat::kOpenMetrics), "c_bucket");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0],
              ::testing::MatchesRegex("c_bucket\\{le=\"0.5\"\\} 2 # "
                                      "\\{trace_id=\"0af70{28}\"\\} 0.5 1[0-9]{9}(\\.[0-9]+)?"));
  EXPECT_EQ(lines[1], "c_bucket{le=\"1\"} 3");
  EXPECT_THAT(lines[2], HasSubstr("4 # {trace_id=\"0b000000000000000000000000000000\"} 7 "));
  EXPECT_THAT(registry.render(), ::testing::Not(HasSubstr("trace_id")));
}

TEST(Metrics, NamesOfVllmAreThereIfAskedFor) {
  EXPECT_THAT(Metrics({}).render(), ::testing::Not(HasSubstr("vllm")));
  Metrics metrics({.vllm_model_name = "a \"b\"\\c"});
  metrics.queue_size.set(3);
  metrics.kv_blocks_total.set(8);
  metrics.kv_blocks_leased.set(1);
  metrics.kv_blocks_retiring.set(1);
  metrics.generated_tokens.add(11);
  metrics.sequence_finish[FinishReason::kEosToken].add(2);
  metrics.sequence_finish[FinishReason::kStopSequence].add();
  metrics.time_to_first_token_duration.observe(0.25);
  const std::string labels = R"({model_name="a \"b\"\\c",engine="0"})";
  const std::string text = metrics.render();
  for (const std::string& line :
       {"\nvllm:num_requests_waiting" + labels + " 3\n",
        "\nvllm:num_requests_running" + labels + " 0\n",
        "\nvllm:kv_cache_usage_perc" + labels + " 0.25\n",
        "\nvllm:generation_tokens_total" + labels + " 11\n",
        "\nvllm:time_to_first_token_seconds_count" + labels + " 1\n",
        "\nvllm:request_success_total" + labels.substr(0, labels.size() - 1) +
            ",finished_reason=\"stop\"} 3\n",
        std::string("\n# TYPE vllm:generation_tokens_total counter\n"),
        std::string("\n# TYPE vllm:request_prompt_tokens histogram\n")}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, DurationBucketsAreThoseOfTgi) {
  const Metrics metrics({});
  const auto lines = lines_with(metrics.render(), "tgi_request_duration_bucket");
  ASSERT_EQ(lines.size(), 36U);
  EXPECT_EQ(lines[0], "tgi_request_duration_bucket{le=\"0.00015000000000000001\"} 0");
  EXPECT_EQ(lines[1], "tgi_request_duration_bucket{le=\"0.00022500000000000002\"} 0");
  EXPECT_EQ(lines[2], "tgi_request_duration_bucket{le=\"0.0003375\"} 0");
  EXPECT_EQ(lines[4], "tgi_request_duration_bucket{le=\"0.000759375\"} 0");
  EXPECT_THAT(lines[34], HasSubstr("le=\"145.6"));
  EXPECT_EQ(lines[35], "tgi_request_duration_bucket{le=\"+Inf\"} 0");
}

TEST(Metrics, LengthBucketsFollowTheLimits) {
  const Metrics metrics({.input_tokens_max = 1000, .total_tokens_max = 2000});
  const std::string text = metrics.render();
  const auto inputs = lines_with(text, "tgi_request_input_length_bucket");
  ASSERT_EQ(inputs.size(), 101U);
  EXPECT_EQ(inputs[0], "tgi_request_input_length_bucket{le=\"10\"} 0");
  EXPECT_EQ(inputs[99], "tgi_request_input_length_bucket{le=\"1000\"} 0");
  EXPECT_EQ(lines_with(text, "tgi_request_generated_tokens_bucket")[99],
            "tgi_request_generated_tokens_bucket{le=\"2000\"} 0");
  const auto sizes = lines_with(text, "tgi_batch_next_size_bucket");
  ASSERT_EQ(sizes.size(), 1025U);
  EXPECT_EQ(sizes[1023], "tgi_batch_next_size_bucket{le=\"1024\"} 0");
}

TEST(Metrics, EachMemberHasItsOwnSeries) {
  Metrics metrics({});
  metrics.request_count.add(2);
  metrics.request_success.add();
  metrics.request_failure[FailureLabel::kOverloaded].add(3);
  metrics.request_failure[FailureLabel::kUnavailable].add(4);
  metrics.batch_inference_count[BatchMethod::kPrefill].add(5);
  metrics.batch_inference_count[BatchMethod::kDecode].add(6);
  metrics.batch_forward_duration[BatchMethod::kDecode].observe(0.25);
  metrics.queue_size.set(7);
  metrics.kv_blocks_retiring.set(8);
  const std::string text = metrics.render();
  for (const char* line : {"\ntgi_request_count 2\n",
                           "\ntgi_request_success 1\n",
                           "\ntgi_request_failure{err=\"overloaded\"} 3\n",
                           "\ntgi_request_failure{err=\"template\"} 0\n",
                           "\ntgi_request_failure{err=\"unavailable\"} 4\n",
                           "\ntgi_batch_inference_count{method=\"prefill\"} 5\n",
                           "\ntgi_batch_inference_count{method=\"decode\"} 6\n",
                           "\ntgi_batch_forward_duration_count{method=\"decode\"} 1\n",
                           "\ntgi_batch_forward_duration_sum{method=\"decode\"} 0.25\n",
                           "\ntgi_batch_forward_duration_count{method=\"prefill\"} 0\n",
                           "\ntgi_queue_size 7\n",
                           "\ntgi_kv_blocks_retiring 8\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_EQ(lines_with(text, "# TYPE tgi_request_failure").size(), 1U);
  const auto start = lines_with(text, "process_start_time_seconds ");
  ASSERT_EQ(start.size(), 1U);
  EXPECT_GT(std::stod(start[0].substr(start[0].find(' '))), 1.7e9);
}

TEST(Metrics, CountsFromManyThreads) {
  Metrics metrics({});
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 1000; ++i) {
        metrics.request_count.add();
        metrics.request_duration.observe(0.001);
        const bool reads = i % 100 == 0;
        EXPECT_FALSE(reads && metrics.render().empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.request_count.value(), 4000U);
  EXPECT_THAT(metrics.render(), HasSubstr("\ntgi_request_duration_count 4000\n"));
}

TEST(Metrics, PageNamesEveryMetric) {
  const char* source = std::getenv("COXSWAIN_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "COXSWAIN_SOURCE_DIR is not set";
  std::ifstream file(std::string(source) + "/docs/metrics.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::size_t aliases = text.str().find("## Names of vLLM");
  ASSERT_NE(aliases, std::string::npos);
  const std::string page = text.str().substr(0, aliases);
  std::size_t declared = 0;
  for (const std::string& line : lines_with(Metrics({}).render(), "# TYPE ")) {
    std::istringstream words(line.substr(7));
    std::string name;
    std::string type;
    words >> name >> type;
    std::string row = "| `" + name;
    row.append("` | ").append(type).append(" |");
    EXPECT_THAT(page, HasSubstr(row));
    ++declared;
  }
  EXPECT_EQ(lines_with(page, "| `").size(), declared) << "the page lists others too";
  const Metrics aliased({.vllm_model_name = "m"});
  for (const std::string& line : lines_with(aliased.render(), "# TYPE vllm:")) {
    const std::string name = line.substr(7, line.rfind(' ') - 7);
    EXPECT_THAT(text.str().substr(aliases), HasSubstr("`" + name + "`"));
  }
}

}  // namespace
}  // namespace coxswain::telemetry
