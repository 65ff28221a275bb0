#include "router/request_trace.h"

#include <chrono>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::router {
namespace {

using std::chrono::milliseconds;
using telemetry::Span;

class KeptSpans final : public telemetry::SpanSink {
 public:
  void add(std::vector<Span> spans) override {
    for (Span& span : spans) kept.push_back(std::move(span));
  }
  std::vector<Span> kept;
};

class RequestTraceTest : public testing::Test {
 protected:
  RequestTraceTest() { request_.received = received_; }
  RequestTrace trace_of(const std::string& traceparent) {
    if (!traceparent.empty()) request_.headers.emplace_back("Traceparent", traceparent);
    return {&sink_, request_};
  }
  // Which was received 100 ms ago and goes through its parts in 10, 20, 30 and 40 ms.
  api::SequenceAnswer sequence() const {
    api::SequenceAnswer out;
    out.queued_at = received_ + milliseconds(10);
    out.scheduled_at = received_ + milliseconds(30);
    out.first_token_at = received_ + milliseconds(60);
    out.finished_at = received_ + milliseconds(100);
    return out;
  }

  const TimePoint received_ = Clock::now() - milliseconds(100);
  http::Request request_;
  RequestRecord record_{"r1", "/generate", 5, 7, 42, 0, 0};
  KeptSpans sink_;
};

TEST_F(RequestTraceTest, ASuccessIsAWholeAndItsParts) {
  trace_of("").succeed(record_, {.queue = milliseconds(20)}, sequence());
  ASSERT_EQ(sink_.kept.size(), 5U);
  const Span& whole = sink_.kept.back();
  EXPECT_EQ(whole.name, "POST /generate");
  EXPECT_EQ(whole.kind, telemetry::SpanKind::kServer);
  EXPECT_EQ(whole.parent, telemetry::SpanId{});
  EXPECT_EQ(whole.begin, received_);
  EXPECT_FALSE(whole.error);
  using Attribute = std::pair<std::string_view, Span::Value>;
  EXPECT_THAT(whole.attributes,
              testing::IsSupersetOf({Attribute{"http.response.status_code", std::int64_t{200}},
                                     Attribute{"request_id", "r1"},
                                     Attribute{"gen_ai.usage.input_tokens", std::int64_t{5}},
                                     Attribute{"gen_ai.usage.output_tokens", std::int64_t{7}},
                                     Attribute{"queue_time", 0.02},
                                     Attribute{"seed", "42"}}));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 4; ++i) {
    const Span& part = sink_.kept[i];
    names.push_back(part.name);
    EXPECT_EQ(part.trace, whole.trace);
    EXPECT_EQ(part.parent, whole.id);
    EXPECT_EQ(part.end - part.begin, milliseconds(10 * (i + 1)));
    if (i > 0) {
      EXPECT_EQ(part.begin, sink_.kept[i - 1].end);
    }
  }
  EXPECT_THAT(names, testing::ElementsAre("validate", "queued", "prefill", "decode"));
}

TEST_F(RequestTraceTest, ATraceOfTheClientGoesOn) {
  trace_of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
      .fail(record_, invalid_argument("`top_k` must be strictly positive", "top_k"), 422);
  ASSERT_EQ(sink_.kept.size(), 1U);
  EXPECT_EQ(sink_.kept[0].trace.front(), 0x0A);
  EXPECT_EQ(sink_.kept[0].parent.front(), 0xB7);
  ASSERT_TRUE(sink_.kept[0].error);
  EXPECT_THAT(*sink_.kept[0].error, testing::HasSubstr("`top_k`"));
}

TEST_F(RequestTraceTest, WhatTheClientDoesNotKeepIsNotTraced) {
  trace_of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").succeed(record_, {}, {});
  EXPECT_TRUE(sink_.kept.empty());
  RequestTrace().fail(record_, internal_error("x"), 500);
}

TEST_F(RequestTraceTest, APartThatNeverCameTakesNoTime) {
  api::SequenceAnswer sequence;
  sequence.queued_at = received_ + milliseconds(10);
  sequence.finished_at = received_ + milliseconds(100);
  trace_of("not valid").succeed(record_, {}, sequence);
  ASSERT_EQ(sink_.kept.size(), 5U);
  for (const Span& span : sink_.kept) EXPECT_LE(span.begin, span.end) << span.name;
  EXPECT_EQ(sink_.kept[2].begin, sink_.kept[2].end);
}

}  // namespace
}  // namespace coxswain::router
