#pragma once
// A page of metrics in the form that its reader asks for: OpenMetrics where Accept names it and likes nothing more,
// otherwise Prometheus's older text; gzip where Accept-Encoding names that.
//
// Thread rule: pure functions.

#include <string>

#include "http/server.h"
#include "telemetry/exposition.h"

namespace coxswain::router {

telemetry::TextFormat metrics_format(const http::Request& request);

// `text`: all families, rendered in that format.
http::Response metrics_page(const http::Request& request, std::string text);

}  // namespace coxswain::router
