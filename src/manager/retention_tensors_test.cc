#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "manager/request_tensors.h"
#include "manager/testing/program.h"

namespace coxswain::manager {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<std::int32_t>;

NamedTensor row(const std::string& name, const Numbers& values) {
  return NamedTensor::of<std::int32_t>(name, {1, std::int64_t(values.size())}, values);
}

Result<Retention> parse(const std::vector<NamedTensor>& tensors) {
  const auto request = testing::make_request(7, {5, 7, 9}, 6);
  for (const NamedTensor& tensor : tensors) request->set(tensor);
  COXSWAIN_ASSIGN_OR_RETURN(const ParsedRequest parsed,
                            parse_request(*request, {.vocab_size = 50}));
  return parsed.request.retention;
}

TEST(RetentionTensors, ColumnsBecomeRanges) {
  const auto got = parse({row("retention_token_range_starts", {0, 64}),
                          row("retention_token_range_ends", {64, -1}),
                          row("retention_token_range_priorities", {80, 50}),
                          row("retention_token_range_durations_ms", {-1, 3000}),
                          NamedTensor::of<std::int32_t>("retention_decode_priority", {1}, {10}),
                          NamedTensor::of<std::int32_t>("retention_decode_duration_ms", {1}, {7})});
  ASSERT_TRUE(got.ok()) << got.status().message();
  const Retention wanted{.ranges = {{.token_begin = 0, .token_end = 64, .priority = 80},
                                    {.token_begin = 64, .priority = 50, .duration = 3000ms}},
                         .decode_priority = 10,
                         .decode_duration = 7ms};
  EXPECT_EQ(*got, wanted);
  const auto without =
      parse({row("retention_token_range_starts", {2}),
             row("retention_token_range_ends", {3}),
             row("retention_token_range_priorities", {0}),
             NamedTensor::of<std::int32_t>("retention_decode_priority", {1}, {0}),
             NamedTensor::of<std::int32_t>("retention_decode_duration_ms", {1}, {-1})});
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ(without->ranges[0].duration, std::nullopt);
  EXPECT_EQ(without->decode_duration, std::nullopt);
  EXPECT_EQ(*parse({}), Retention{});
}

std::string refusal(const std::vector<NamedTensor>& tensors) {
  const auto got = parse(tensors);
  EXPECT_FALSE(got.ok());
  return got.status().message();
}

TEST(RetentionTensors, WhatDoesNotFitIsRefusedByName) {
  EXPECT_EQ(refusal({row("retention_token_range_ends", {64})}),
            "`retention_token_range_ends` must be as long as `retention_token_range_starts`, 0. "
            "Given: 1");
  EXPECT_EQ(
      refusal({row("retention_token_range_starts", {0}), row("retention_token_range_ends", {64})}),
      "`retention_token_range_priorities` must be as long as "
      "`retention_token_range_starts`, 1. Given: 0");
  EXPECT_EQ(refusal({row("retention_token_range_starts", {-1}),
                     row("retention_token_range_ends", {64}),
                     row("retention_token_range_priorities", {80})}),
            "`retention_token_range_starts` must be >= 0. Given: -1");
  EXPECT_EQ(refusal({row("retention_token_range_starts", {0}),
                     row("retention_token_range_ends", {-2}),
                     row("retention_token_range_priorities", {80})}),
            "`retention_token_range_ends` must be >= 0, or -1. Given: -2");
  EXPECT_EQ(refusal({NamedTensor::of<std::int32_t>("retention_decode_priority", {1}, {-1})}),
            "`retention_decode_priority` must be >= 0. Given: -1");
  EXPECT_EQ(refusal({NamedTensor::of<std::int32_t>("retention_decode_duration_ms", {1}, {-2})}),
            "`retention_decode_duration_ms` must be >= 0, or -1. Given: -2");
}

// What the engine says of the numbers is said of the tensor.
TEST(RetentionTensors, TheEnginesRulesNameATensor) {
  const Status status = in_tensor_words(invalid_argument("ranges overlap at token 3", "retention"));
  EXPECT_EQ(status.field(), "retention_token_range_starts");
}

}  // namespace
}  // namespace coxswain::manager
