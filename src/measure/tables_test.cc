#include "measure/tables.h"

#include <chrono>

#include <gtest/gtest.h>

namespace coxswain::measure {
namespace {

using std::chrono::milliseconds;

TEST(Percentile, IsOfSortedSamplesByNearestRank) {
  const std::vector<double> samples{50, 15, 40, 20, 35};
  EXPECT_EQ(percentile(samples, 50), 35);
  EXPECT_EQ(percentile(samples, 40), 20);
  EXPECT_EQ(percentile(samples, 41), 35);
  EXPECT_EQ(percentile(samples, 90), 50);
  EXPECT_EQ(percentile(samples, 100), 50);
  EXPECT_EQ(percentile(samples, 0.1), 15);
  EXPECT_EQ(percentile(std::vector<double>{7}, 99), 7);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  EXPECT_EQ(percentile(hundred, 50), 50);
  EXPECT_EQ(percentile(hundred, 90), 90);
  EXPECT_EQ(percentile(hundred, 99), 99);
}

TEST(AddRun, TgisFormulas) {
  const Settings settings{.sequence_length = 10, .decode_length = 8};
  BatchSamples samples{.batch_size = 4};
  add_run({.prefill = milliseconds(20), .decode = milliseconds(70), .n_decode_steps = 7},
          settings,
          samples);
  EXPECT_DOUBLE_EQ(samples.prefill_ms.at(0), 20);
  EXPECT_DOUBLE_EQ(samples.prefill_throughput.at(0), 4 * 10 / 0.020);
  EXPECT_DOUBLE_EQ(samples.decode_total_ms.at(0), 70);
  EXPECT_DOUBLE_EQ(samples.decode_token_ms.at(0), 10);
  EXPECT_DOUBLE_EQ(samples.decode_throughput.at(0), 4 * 7 / 0.070);
}

TEST(Tables, Parameters) {
  Settings settings{.tokenizer_name = "org/name", .top_k = 5, .do_sample = true};
  settings.temperature = 1.0F;
  settings.top_p = 0.95F;
  EXPECT_EQ(parameters_table(settings),
            "| Parameter          | Value      |\n"
            "|--------------------|------------|\n"
            "| Model              | org/name   |\n"
            "| Sequence Length    | 10         |\n"
            "| Decode Length      | 8          |\n"
            "| Top N Tokens       | None       |\n"
            "| N Runs             | 10         |\n"
            "| Warmups            | 1          |\n"
            "| Temperature        | Some(1.0)  |\n"
            "| Top K              | Some(5)    |\n"
            "| Top P              | Some(0.95) |\n"
            "| Typical P          | None       |\n"
            "| Repetition Penalty | None       |\n"
            "| Frequency Penalty  | None       |\n"
            "| Watermark          | false      |\n"
            "| Do Sample          | true       |\n");
}

std::vector<BatchSamples> two_batches() {
  return {{.batch_size = 1,
           .prefill_ms = {4, 2, 3},
           .decode_token_ms = {1, 1, 2},
           .decode_total_ms = {7, 7, 14},
           .prefill_throughput = {2500, 5000, 3000},
           .decode_throughput = {1000, 1000, 500}},
          {.batch_size = 32,
           .prefill_ms = {40.126, 20, 30},
           .decode_token_ms = {10, 10, 20},
           .decode_total_ms = {70, 70, 140},
           .prefill_throughput = {8000, 16000, 10000},
           .decode_throughput = {3200, 3200, 1600}}};
}

TEST(Tables, Latencies) {
  EXPECT_EQ(latencies_table(two_batches()),
            "| Step           | Batch Size | Average  | Lowest   | Highest   | p50      | p90      "
            " | p99       |\n"
            "|----------------|------------|----------|----------|-----------|----------|----------"
            "-|-----------|\n"
            "| Prefill        | 1          | 3.00 ms  | 2.00 ms  | 4.00 ms   | 3.00 ms  | 4.00 ms  "
            " | 4.00 ms   |\n"
            "|                | 32         | 30.04 ms | 20.00 ms | 40.13 ms  | 30.00 ms | 40.13 ms "
            " | 40.13 ms  |\n"
            "| Decode (token) | 1          | 1.33 ms  | 1.00 ms  | 2.00 ms   | 1.00 ms  | 2.00 ms  "
            " | 2.00 ms   |\n"
            "|                | 32         | 13.33 ms | 10.00 ms | 20.00 ms  | 10.00 ms | 20.00 ms "
            " | 20.00 ms  |\n"
            "| Decode (total) | 1          | 9.33 ms  | 7.00 ms  | 14.00 ms  | 7.00 ms  | 14.00 ms "
            " | 14.00 ms  |\n"
            "|                | 32         | 93.33 ms | 70.00 ms | 140.00 ms | 70.00 ms | 140.00 "
            "ms | 140.00 ms |\n");
}

TEST(Tables, Throughputs) {
  EXPECT_EQ(throughputs_table(two_batches()),
            "| Step    | Batch Size | Average              | Lowest              | Highest         "
            "     |\n"
            "|---------|------------|----------------------|---------------------|-----------------"
            "-----|\n"
            "| Prefill | 1          | 3500.00 tokens/secs  | 2500.00 tokens/secs | 5000.00 "
            "tokens/secs  |\n"
            "|         | 32         | 11333.33 tokens/secs | 8000.00 tokens/secs | 16000.00 "
            "tokens/secs |\n"
            "| Decode  | 1          | 833.33 tokens/secs   | 500.00 tokens/secs  | 1000.00 "
            "tokens/secs  |\n"
            "|         | 32         | 2666.67 tokens/secs  | 1600.00 tokens/secs | 3200.00 "
            "tokens/secs  |\n");
}

}  // namespace
}  // namespace coxswain::measure
