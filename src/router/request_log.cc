#include "router/request_log.h"

#include <array>
#include <utility>
#include <vector>

#include "api/errors.h"

namespace coxswain::router {
namespace {

constexpr std::chrono::milliseconds kRefusalInterval{1'000};

struct Failure {
  std::string text;
  std::string_view kind;
  bool ours = false;
};

Failure failure_of(const Status& status) {
  using telemetry::FailureLabel;
  const FailureLabel label = api::failure_label(status);
  if (label == FailureLabel::kDropped) return {"the client is gone", "cancelled", false};
  return {api::client_text(status),
          api::error_row(api::client_kind(status)).name,
          label == FailureLabel::kGeneration || label == FailureLabel::kIncomplete};
}

}  // namespace

std::string duration_text(std::chrono::nanoseconds duration) {
  constexpr std::array<std::pair<std::int64_t, std::string_view>, 3> kUnits{
      {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}}};
  const std::int64_t n = duration.count();
  for (const auto& [size, name] : kUnits) {
    if (n < size) continue;
    std::string out = std::to_string(n / size);
    std::string decimals = std::to_string(n % size * 1000 / size);
    decimals.insert(0, 3 - decimals.size(), '0');
    decimals.erase(decimals.find_last_not_of('0') + 1);
    if (!decimals.empty()) out += "." + decimals;
    return out.append(name);
  }
  return std::to_string(n) + "ns";
}

void log_success(telemetry::Logger& log, const RequestRecord& record, const RequestTimes& times) {
  if (!log.enabled(telemetry::Level::kInfo)) return;
  const std::string total = duration_text(times.total);
  const std::string validation = duration_text(times.validation);
  const std::string queue = duration_text(times.queue);
  const std::string inference = duration_text(times.inference);
  const std::string per_token = duration_text(times.per_token);
  const std::string seed = record.seed ? std::to_string(*record.seed) : "None";
  std::vector<telemetry::Field> fields{{"request_id", record.request_id},
                                       {"path", record.path},
                                       {"total_time", std::string_view(total)},
                                       {"validation_time", std::string_view(validation)},
                                       {"queue_time", std::string_view(queue)},
                                       {"inference_time", std::string_view(inference)},
                                       {"time_per_token", std::string_view(per_token)},
                                       {"seed", std::string_view(seed)},
                                       {"prompt_tokens", record.prompt_tokens},
                                       {"generated_tokens", record.generated_tokens}};
  if (!record.key.empty()) fields.push_back({"key", record.key});
  if (record.draft_tokens > 0) {
    fields.push_back({"draft_tokens", record.draft_tokens});
    fields.push_back({"draft_tokens_accepted", record.draft_tokens_accepted});
  }
  log.log(telemetry::Level::kInfo, "Success", fields);
}

void log_failure(telemetry::Logger& log, const RequestRecord& record, const Status& status) {
  const Failure failure = failure_of(status);
  std::vector<telemetry::Field> fields{
      {"request_id", record.request_id}, {"path", record.path}, {"error_type", failure.kind}};
  if (!record.key.empty()) fields.push_back({"key", record.key});
  log.log(failure.ours ? telemetry::Level::kError : telemetry::Level::kInfo, failure.text, fields);
}

void log_refusal(telemetry::Logger& log, const RequestRecord& record, const Status& status) {
  const Failure failure = failure_of(status);
  const std::string kind = "refused: " + std::string(failure.kind);
  const telemetry::Field id{"request_id", record.request_id};
  const telemetry::Field path{"path", record.path};
  const telemetry::Field type{"error_type", failure.kind};
  if (record.key.empty()) {
    log.warn_limited(kind, kRefusalInterval, failure.text, {id, path, type});
  } else {
    log.warn_limited(kind, kRefusalInterval, failure.text, {id, path, type, {"key", record.key}});
  }
}

}  // namespace coxswain::router
