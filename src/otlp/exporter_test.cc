#include "otlp/exporter.h"

#include <chrono>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "otlp/collector.h"
#include "otlp/encode.h"

namespace coxswain::otlp {
namespace {

using std::chrono::milliseconds;
using telemetry::Span;
using testing::ElementsAre;
using testing::HasSubstr;

// Answers as it is told, then always well; keeps what it was sent.
class Script final : public Collector {
 public:
  explicit Script(std::vector<Status> answers) : answers_(std::move(answers)) {}

  Status send(const TraceRequest& request, milliseconds) override {
    base::MutexLock lock(mu_);
    requests_.push_back(request);
    sent_.notify_all();
    const std::size_t i = requests_.size() - 1;
    return i < answers_.size() ? answers_[i] : Status();
  }
  std::vector<TraceRequest> wait_requests(std::size_t n) {
    base::MutexLock lock(mu_);
    sent_.wait_for(
        lock, std::chrono::seconds(60), [&]() REQUIRES(mu_) { return requests_.size() >= n; });
    return requests_;
  }

 private:
  const std::vector<Status> answers_;
  base::Mutex mu_;
  base::CondVar sent_;
  std::vector<TraceRequest> requests_ GUARDED_BY(mu_);
};

class ExporterTest : public testing::Test {
 protected:
  ExporterTest() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0);
    log_.emplace(telemetry::LogOptions{.target = "router", .file_descriptor = ends_[1]});
  }
  ~ExporterTest() override {
    for (const int end : ends_) close(end);
  }

  std::unique_ptr<Exporter> exporter(std::vector<Status> answers = {}) {
    auto script = std::make_unique<Script>(std::move(answers));
    script_ = script.get();
    return std::make_unique<Exporter>(options_, std::move(script), *log_);
  }
  static std::vector<Span> spans(std::size_t n) {
    return std::vector<Span>(n, {.name = "s", .begin = Clock::now(), .end = Clock::now()});
  }
  std::string logged() const {
    std::string out(1 << 14, '\0');
    const ssize_t n = read(ends_[0], out.data(), out.size());
    out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return out;
  }

  int ends_[2] = {-1, -1};
  std::optional<telemetry::Logger> log_;
  ExporterOptions options_{.endpoint = "http://c:4317",
                           .service_name = "service",
                           .version = "1.2",
                           .interval = milliseconds(1),
                           .first_pause = milliseconds(1)};
  Script* script_ = nullptr;
};

std::size_t n_spans(const TraceRequest& request) {
  return static_cast<std::size_t>(request.resource_spans(0).scope_spans(0).spans_size());
}

TEST_F(ExporterTest, WhatIsAddedArrives) {
  const auto exporter = this->exporter();
  exporter->add(spans(5));
  const auto requests = script_->wait_requests(1);
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(n_spans(requests[0]), 5U);
  EXPECT_EQ(logged(), "");
}

TEST_F(ExporterTest, WhatWaitsLeavesAtTheEnd) {
  options_.interval = std::chrono::hours(1);
  {
    const auto exporter = this->exporter({Status(Code::kUnavailable, "asleep")});
    exporter->add(spans(1));
    exporter->add(spans(2));
  }
  // One attempt, without the pauses before others.
  EXPECT_THAT(logged(), HasSubstr("spans=3"));
}

TEST_F(ExporterTest, AFullBatchLeavesAtOnce) {
  options_.interval = std::chrono::hours(1);
  options_.spans_at_once = 3;
  const auto exporter = this->exporter();
  exporter->add(spans(1));
  exporter->add(spans(2));
  EXPECT_EQ(n_spans(script_->wait_requests(1).at(0)), 3U);
}

TEST_F(ExporterTest, WhatMayPassLaterIsSentAgain) {
  const Status later(Code::kUnavailable, "not now");
  const auto exporter = this->exporter({later, later, later});
  exporter->add(spans(2));
  const auto requests = script_->wait_requests(4);
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_EQ(n_spans(requests[3]), 2U);
}

TEST_F(ExporterTest, WhatIsRefusedIsDroppedAndTold) {
  const auto exporter = this->exporter({invalid_argument("no such route")});
  exporter->add(spans(2));
  script_->wait_requests(1);
  exporter->add(spans(1));
  EXPECT_EQ(n_spans(script_->wait_requests(2).at(1)), 1U);
  EXPECT_THAT(logged(),
              HasSubstr("traces were not delivered spans=2 endpoint=http://c:4317 "
                        "reason=\"no such route\""));
}

TEST_F(ExporterTest, AFullQueueDropsWhatComes) {
  options_.interval = std::chrono::hours(1);
  options_.queue_spans_max = 4;
  {
    const auto exporter = this->exporter();
    exporter->add(spans(3));
    exporter->add(spans(2));
    EXPECT_THAT(logged(), HasSubstr("spans=2"));
    exporter->add(spans(1));
  }
  EXPECT_EQ(logged(), "");
}

TEST(Encode, HasWhatTheSpanHas) {
  const auto begin = std::chrono::system_clock::now();
  Span span{.trace = {1, 2},
            .id = {3},
            .parent = {4},
            .name = "POST /generate",
            .kind = telemetry::SpanKind::kServer,
            .begin = Clock::now() - milliseconds(250),
            .end = Clock::now(),
            .attributes = {{"text", "a"}, {"number", std::int64_t{7}}, {"real", 0.5}},
            .error = "gone"};
  const TraceRequest message = encode({&span, 1}, {.service_name = "s", .version = "9"});
  const auto& resource = message.resource_spans(0).resource();
  EXPECT_EQ(resource.attributes(0).key(), "service.name");
  EXPECT_EQ(resource.attributes(0).value().string_value(), "s");
  const auto& out = message.resource_spans(0).scope_spans(0).spans(0);
  EXPECT_EQ(out.trace_id(), (std::string{1, 2} + std::string(14, '\0')));
  EXPECT_EQ(out.span_id().size(), 8U);
  EXPECT_EQ(out.parent_span_id()[0], 4);
  EXPECT_EQ(out.kind(), 2);
  EXPECT_EQ(out.end_time_unix_nano() - out.start_time_unix_nano(),
            static_cast<std::uint64_t>((span.end - span.begin).count()));
  const auto unix_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(begin.time_since_epoch()).count();
  EXPECT_NEAR(static_cast<double>(out.end_time_unix_nano()), static_cast<double>(unix_ns), 60e9);
  EXPECT_EQ(out.attributes(1).value().int_value(), 7);
  EXPECT_EQ(out.attributes(2).value().double_value(), 0.5);
  EXPECT_EQ(out.status().code(), 2);
  EXPECT_EQ(out.status().message(), "gone");
}

TEST(Endpoint, HasWhatTheTextLeavesOut) {
  const auto of = [](const std::string& text, Protocol protocol) {
    const auto out = endpoint_of(text, protocol);
    return out.ok() ? *out : out.status().message();
  };
  using enum Protocol;
  EXPECT_EQ(of("http://c:4317", kGrpc), "http://c:4317");
  EXPECT_EQ(of("c", kGrpc), "http://c:4317");
  EXPECT_EQ(of("https://c/", kGrpc), "https://c:4317");
  EXPECT_EQ(of("[::1]:9", kGrpc), "http://[::1]:9");
  EXPECT_EQ(of("[::1]", kGrpc), "http://[::1]:4317");
  EXPECT_EQ(of("http://c", kHttpProtobuf), "http://c:4318/v1/traces");
  EXPECT_EQ(of("http://c:1/otlp/", kHttpProtobuf), "http://c:1/otlp/v1/traces");
  EXPECT_EQ(of("http://c:1/v1/traces", kHttpProtobuf), "http://c:1/v1/traces");
  EXPECT_THAT(of("http://c:4317/v1/traces", kGrpc), HasSubstr("a path"));
  EXPECT_THAT(of("ftp://c", kGrpc), HasSubstr("neither"));
  for (const char* text : {"", "http://", "http://:1", "c:0", "c:65536", "c:4317x", "a b", "u@c"})
    EXPECT_THAT(of(text, kGrpc), HasSubstr("no host")) << text;
}

}  // namespace
}  // namespace coxswain::otlp
