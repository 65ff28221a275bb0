#include "router/metrics_page.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "http/accept.h"
#include "http/syntax.h"

namespace coxswain::router {
namespace {

// That we can write; a reader that names none takes any.
bool is_known_version(std::string_view version) {
  return version.empty() || version == "1.0.0" || version == "0.0.1";
}

}  // namespace

telemetry::TextFormat metrics_format(const http::Request& request) {
  double open = 0;
  double plain = 0;
  for (const http::Accepted& one : http::parse_accepted(request.header("accept"))) {
    if (http::equal_ignoring_case(one.name, "application/openmetrics-text") &&
        is_known_version(one.parameter("version"))) {
      open = std::max(open, one.quality);
    } else if (http::equal_ignoring_case(one.name, "text/plain")) {
      plain = std::max(plain, one.quality);
    }
  }
  return open > 0 && open >= plain ? telemetry::TextFormat::kOpenMetrics
                                   : telemetry::TextFormat::kPrometheus;
}

http::Response metrics_page(const http::Request& request, std::string text) {
  http::Response out;
  out.content_type = "text/plain; version=0.0.4; charset=utf-8";
  if (metrics_format(request) == telemetry::TextFormat::kOpenMetrics) {
    out.content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    text += "# EOF\n";
  }
  out.headers.emplace_back("vary", "accept, accept-encoding");
  if (http::accepts_gzip(request.header("accept-encoding"))) {
    out.headers.emplace_back("content-encoding", "gzip");
    text = http::gzipped(text);
  }
  out.body = std::move(text);
  return out;
}

}  // namespace coxswain::router
