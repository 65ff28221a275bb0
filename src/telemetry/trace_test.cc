#include "telemetry/trace.h"

#include <set>

#include <gtest/gtest.h>

namespace coxswain::telemetry {
namespace {

constexpr std::string_view kValid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(Traceparent, IsReadAsWritten) {
  const auto parent = parse_traceparent(kValid);
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace.front(), 0x0A);
  EXPECT_EQ(parent->trace.back(), 0x9C);
  EXPECT_EQ(parent->span.front(), 0xB7);
  EXPECT_EQ(parent->span.back(), 0x31);
  EXPECT_TRUE(parent->sampled);
  std::string unsampled(kValid);
  unsampled.back() = '0';
  EXPECT_FALSE(parse_traceparent(unsampled)->sampled);
}

TEST(Traceparent, AnIdIsWrittenAsItIsRead) {
  EXPECT_EQ(to_text(parse_traceparent(kValid)->trace), kValid.substr(3, 32));
}

TEST(Traceparent, WhatIsNotValidIsNone) {
  std::set<std::string> invalid{"", "00", std::string(kValid) + "-more", std::string(kValid) + "0"};
  // Each place in turn: digits of upper case or none, dashes that are missing, and one character less.
  for (std::size_t i = 0; i < kValid.size(); ++i) {
    for (const char c : {'F', 'g', ' '}) {
      std::string text(kValid);
      text[i] = c;
      invalid.insert(text);
    }
    invalid.insert(std::string(kValid).erase(i, 1));
  }
  invalid.insert("ff" + std::string(kValid.substr(2)));
  invalid.insert("00-" + std::string(32, '0') + "-b7ad6b7169203331-01");
  invalid.insert("00-0af7651916cd43dd8448eb211c80319c-" + std::string(16, '0') + "-01");
  for (const std::string& text : invalid) EXPECT_FALSE(parse_traceparent(text)) << text;
}

TEST(Traceparent, ALaterVersionMayHaveMore) {
  const std::string later = "01" + std::string(kValid.substr(2));
  EXPECT_TRUE(parse_traceparent(later));
  EXPECT_TRUE(parse_traceparent(later + "-what-ever"));
  EXPECT_FALSE(parse_traceparent(later + "what-ever"));
}

TEST(TraceIds, AreDrawnAnew) {
  std::set<SpanId> spans;
  std::set<TraceId> traces;
  for (int i = 0; i < 100; ++i) {
    spans.insert(new_span_id());
    traces.insert(new_trace_id());
  }
  EXPECT_EQ(spans.size(), 100U);
  EXPECT_EQ(traces.size(), 100U);
  EXPECT_FALSE(spans.contains(SpanId{}));
}

}  // namespace
}  // namespace coxswain::telemetry
