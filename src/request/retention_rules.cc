#include "request/retention_rules.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace coxswain::request {
namespace {

Status refuse(std::string message) {
  return invalid_argument(std::move(message), std::string(kRetentionField));
}

Status check_priority(std::string_view name, std::uint32_t priority) {
  if (priority <= kRetentionPriorityMax) return {};
  return refuse(std::string(name) + " must be at most " + std::to_string(kRetentionPriorityMax) +
                ". Given: " + std::to_string(priority));
}

Status check_duration(std::string_view name,
                      const std::optional<std::chrono::milliseconds>& duration) {
  if (!duration || (duration->count() > 0 && *duration <= kRetentionDurationMax)) return {};
  return refuse(std::string(name) + " must be from 1 to " +
                std::to_string(kRetentionDurationMax.count()) +
                " ms. Given: " + std::to_string(duration->count()));
}

}  // namespace

Status check_retention(const Retention& retention) {
  if (retention.ranges.size() > kRetentionRangesMax) {
    return refuse("there are " + std::to_string(retention.ranges.size()) + " ranges, at most " +
                  std::to_string(kRetentionRangesMax) + " are taken");
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
  for (const RetentionRange& range : retention.ranges) {
    const std::uint64_t end = range.token_end ? *range.token_end : std::uint64_t{UINT32_MAX} + 1;
    if (range.token_begin >= end) {
      return refuse("`token_end` must be above `token_begin` " + std::to_string(range.token_begin) +
                    ". Given: " + std::to_string(end));
    }
    COXSWAIN_RETURN_IF_ERROR(check_priority("`priority`", range.priority));
    COXSWAIN_RETURN_IF_ERROR(check_duration("`duration`", range.duration));
    spans.emplace_back(range.token_begin, end);
  }
  std::ranges::sort(spans);
  for (std::size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].first < spans[i - 1].second) {
      return refuse("ranges overlap at token " + std::to_string(spans[i].first));
    }
  }
  if (retention.decode_priority)
    COXSWAIN_RETURN_IF_ERROR(check_priority("`decode_priority`", *retention.decode_priority));
  if (retention.decode_duration && !retention.decode_priority)
    return refuse("`decode_duration` needs `decode_priority`");
  return check_duration("`decode_duration`", retention.decode_duration);
}

}  // namespace coxswain::request
