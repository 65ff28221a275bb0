#pragma once
// FailureLabel: why a request failed, as the label `err` of tgi_request_failure says it.

#include <cstdint>

namespace coxswain::telemetry {

enum class FailureLabel : std::uint8_t {
  kOverloaded,
  kValidation,
  kGeneration,
  kIncomplete,
  kDropped,
  kTemplate,
  kDeadline,
  kUnavailable
};

}  // namespace coxswain::telemetry
