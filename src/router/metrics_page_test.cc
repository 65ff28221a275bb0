#include "router/metrics_page.h"

#include <gtest/gtest.h>

namespace coxswain::router {
namespace {

using telemetry::TextFormat;

http::Request asking(std::string accept, std::string encoding = "") {
  http::Request out;
  if (!accept.empty()) out.headers.emplace_back("accept", std::move(accept));
  if (!encoding.empty()) out.headers.emplace_back("accept-encoding", std::move(encoding));
  return out;
}

// Prometheus 3, Prometheus 2, and what asks for OpenMetrics alone.
TEST(MetricsPage, OpenMetricsIsForThoseWhoLikeItMost) {
  for (const char* accept :
       {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
        "application/openmetrics-text;version=0.0.1;q=0.5,"
        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,"
        "*/*;q=0.2",
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
        "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text",
        "APPLICATION/OpenMetrics-Text, text/plain"}) {
    EXPECT_EQ(metrics_format(asking(accept)), TextFormat::kOpenMetrics) << accept;
  }
  for (const char* accept : {"",
                             "*/*",
                             "text/plain",
                             "text/html,application/xhtml+xml,*/*;q=0.8",
                             "text/plain, application/openmetrics-text;q=0.9",
                             "application/openmetrics-text;q=0",
                             "application/openmetrics-text;version=9.0.0"}) {
    EXPECT_EQ(metrics_format(asking(accept)), TextFormat::kPrometheus) << accept;
  }
}

TEST(MetricsPage, HasTheTypeTheEndAndTheEncoding) {
  const http::Response plain = metrics_page(asking(""), "a 1\n");
  EXPECT_EQ(plain.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(plain.body, "a 1\n");
  ASSERT_EQ(plain.headers.size(), 1U);
  EXPECT_EQ(plain.headers[0], http::Header("vary", "accept, accept-encoding"));
  const http::Response open = metrics_page(asking("application/openmetrics-text"), "a 1\n");
  EXPECT_EQ(open.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_EQ(open.body, "a 1\n# EOF\n");
  const http::Response packed = metrics_page(asking("", "gzip"), "a 1\n");
  EXPECT_EQ(packed.headers.back(), http::Header("content-encoding", "gzip"));
  EXPECT_TRUE(packed.body.starts_with("\x1F\x8B"));
}

}  // namespace
}  // namespace coxswain::router
