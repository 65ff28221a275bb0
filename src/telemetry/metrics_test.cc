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
  std::stringstream page;
  page << file.rdbuf();
  std::size_t declared = 0;
  for (const std::string& line : lines_with(Metrics({}).render(), "# TYPE ")) {
    std::istringstream words(line.substr(7));
    std::string name;
    std::string type;
    words >> name >> type;
    std::string row = "| `" + name;
    row.append("` | ").append(type).append(" |");
    EXPECT_THAT(page.str(), HasSubstr(row));
    ++declared;
  }
  EXPECT_EQ(lines_with(page.str(), "| `").size(), declared) << "the page lists others too";
}

}  // namespace
}  // namespace coxswain::telemetry
