#pragma once
// RequestTally counts one client request in the metrics: once when it comes, and exactly once when
// it ends. A request that is let go without an end counts as dropped.
//
// Thread rule: belongs to whoever holds the request.

#include <utility>

#include "api/errors.h"
#include "telemetry/metrics.h"

namespace coxswain::router {

class RequestTally {
 public:
  explicit RequestTally(telemetry::Metrics* metrics) : metrics_(metrics) {
    if (metrics_ != nullptr) metrics_->request_count.add();
  }
  RequestTally(RequestTally&& other) noexcept : metrics_(std::exchange(other.metrics_, nullptr)) {}
  RequestTally& operator=(RequestTally&&) = delete;
  ~RequestTally() { fail(telemetry::FailureLabel::kDropped); }

  void succeed() {
    if (auto* metrics = std::exchange(metrics_, nullptr)) metrics->request_success.add();
  }
  void fail(telemetry::FailureLabel label) {
    if (auto* metrics = std::exchange(metrics_, nullptr)) metrics->request_failure[label].add();
  }

 private:
  telemetry::Metrics* metrics_;  // null once the end is counted
};

}  // namespace coxswain::router
