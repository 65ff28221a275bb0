#pragma once
// One log line for each request that ended, with the fields of TGI's request span: total_time,
// validation_time, queue_time, inference_time, time_per_token and seed. docs/logs.md has the line.
//
// Thread rule: any thread. Called where an answer is written, never in the engine's step.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "telemetry/log.h"

namespace coxswain::router {

struct RequestTimes {
  std::chrono::nanoseconds total{};
  std::chrono::nanoseconds validation{};  // arrival until queued
  std::chrono::nanoseconds queue{};       // queued until its first step is planned
  std::chrono::nanoseconds inference{};   // until the last token
  std::chrono::nanoseconds per_token{};
};

struct RequestRecord {
  std::string_view request_id;
  std::string_view path;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::optional<std::uint64_t> seed{};  // empty: greedy
  // Guessed ahead and computed, and of these, right. Told where there are some.
  std::uint64_t draft_tokens = 0;
  std::uint64_t draft_tokens_accepted = 0;
  std::string_view key{};  // the name of the key; told where there is one
};

// "Success", at info level.
void log_success(telemetry::Logger& log, const RequestRecord& record, const RequestTimes& times);

// The text that the client got, at error level if the fault is ours, otherwise at info level. A
// client that went away is no fault: "the client is gone".
void log_failure(telemetry::Logger& log, const RequestRecord& record, const Status& status);

// The same for a request that was refused before it ran, as a warning. Overload makes many of them,
// so there is one line in a second for each kind.
void log_refusal(telemetry::Logger& log, const RequestRecord& record, const Status& status);

// "1.204s", "37.51ms", "8.1us", "250ns": three digits after the point at most, without zeros at the end.
std::string duration_text(std::chrono::nanoseconds duration);

}  // namespace coxswain::router
