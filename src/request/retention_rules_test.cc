#include "request/retention_rules.h"

#include <gtest/gtest.h>

namespace coxswain::request {
namespace {

using std::chrono::milliseconds;

std::string wrong_with(const Retention& retention) {
  const Status status = check_retention(retention);
  if (status.ok()) return {};
  EXPECT_EQ(status.field(), kRetentionField);
  return status.message();
}

TEST(RetentionRules, RangesThatDoNotOverlapAreTaken) {
  EXPECT_EQ(wrong_with({}), "");
  EXPECT_EQ(
      wrong_with({.ranges = {{.token_begin = 64, .priority = 100},
                             {.token_begin = 0, .token_end = 64, .duration = milliseconds(1)}},
                  .decode_priority = 0,
                  .decode_duration = kRetentionDurationMax}),
      "");
}

TEST(RetentionRules, WhatIsWrongIsNamed) {
  EXPECT_EQ(wrong_with({.ranges = {{.token_begin = 7, .token_end = 7}}}),
            "`token_end` must be above `token_begin` 7. Given: 7");
  EXPECT_EQ(wrong_with({.ranges = {{.token_begin = 7}, {.token_begin = 0, .token_end = 8}}}),
            "ranges overlap at token 7");
  EXPECT_EQ(wrong_with({.ranges = {{.priority = 101}}}),
            "`priority` must be at most 100. Given: 101");
  EXPECT_EQ(wrong_with({.ranges = {{.duration = milliseconds(0)}}}),
            "`duration` must be from 1 to 31536000000 ms. Given: 0");
  EXPECT_EQ(wrong_with({.decode_priority = 200}),
            "`decode_priority` must be at most 100. Given: 200");
  EXPECT_EQ(wrong_with({.decode_priority = 1, .decode_duration = milliseconds(-1)}),
            "`decode_duration` must be from 1 to 31536000000 ms. Given: -1");
  EXPECT_EQ(wrong_with({.decode_duration = milliseconds(5)}),
            "`decode_duration` needs `decode_priority`");
  Retention many;
  many.ranges.resize(kRetentionRangesMax + 1);
  EXPECT_EQ(wrong_with(many), "there are 1025 ranges, at most 1024 are taken");
}

}  // namespace
}  // namespace coxswain::request
