#include "supervise/restart_policy.h"

#include <gtest/gtest.h>

#include "supervise/line_buffer.h"

namespace coxswain::supervise {
namespace {

using std::chrono::seconds;

TEST(RestartPolicy, WaitsLongerEachTimeAndGivesUp) {
  RestartPolicy policy;
  const TimePoint start{};
  EXPECT_EQ(policy.on_death(start), start);
  EXPECT_EQ(policy.on_death(start + seconds(1)), start + seconds(2));
  EXPECT_EQ(policy.on_death(start + seconds(3)), start + seconds(5));
  EXPECT_EQ(policy.on_death(start + seconds(6)), start + seconds(10));
  EXPECT_EQ(policy.on_death(start + seconds(11)), std::nullopt);
}

TEST(RestartPolicy, DeathsOutsideTheWindowAreForgotten) {
  RestartPolicy policy;
  TimePoint now{};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(policy.on_death(now), now);
    now += seconds(61);
  }
}

TEST(RestartPolicy, DelayIsCapped) {
  RestartPolicy policy({.deaths_max = 50, .window = seconds(100000), .delay_max = seconds(30)});
  TimePoint now{};
  for (int i = 0; i < 40; ++i) {
    const auto next = policy.on_death(now);
    ASSERT_TRUE(next.has_value());
    EXPECT_LE(*next - now, seconds(30));
    now = *next;
  }
}

TEST(LineBuffer, LinesSurviveEverySplit) {
  const std::string text = "one\r\n\ntwo three\nrest";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    LineBuffer buffer(100);
    auto lines = buffer.push(text.substr(0, cut));
    for (auto& line : buffer.push(text.substr(cut))) lines.push_back(line);
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two three"})) << cut;
    EXPECT_EQ(buffer.take_rest(), "rest");
  }
}

TEST(LineBuffer, LongLinesAreCut) {
  LineBuffer buffer(8);
  EXPECT_EQ(buffer.push(std::string(100, 'a')).size(), 0U);
  EXPECT_EQ(buffer.push("b\nshort\n"), (std::vector<std::string>{"aaaaaaaa", "short"}));
}

}  // namespace
}  // namespace coxswain::supervise
