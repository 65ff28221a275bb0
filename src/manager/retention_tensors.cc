#include "manager/retention_tensors.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "manager/tensor_form.h"

namespace coxswain::manager {
namespace {

constexpr std::int32_t kNone = -1;

Status check_column(std::string_view name,
                    std::span<const std::int32_t> column,
                    std::size_t n,
                    bool may_be_none) {
  if (column.size() != n) {
    return refuse(name,
                  "as long as `retention_token_range_starts`, " + std::to_string(n),
                  std::to_string(column.size()));
  }
  for (const std::int32_t value : column) {
    if (value < 0 && !(may_be_none && value == kNone))
      return refuse(name, may_be_none ? ">= 0, or -1" : ">= 0", std::to_string(value));
  }
  return {};
}

std::optional<std::chrono::milliseconds> duration_of(std::int32_t value) {
  if (value == kNone) return std::nullopt;
  return std::chrono::milliseconds(value);
}

}  // namespace

Result<Retention> RetentionTensors::retention() const {
  const std::size_t n = starts.size();
  COXSWAIN_RETURN_IF_ERROR(check_column("retention_token_range_starts", starts, n, false));
  COXSWAIN_RETURN_IF_ERROR(check_column("retention_token_range_ends", ends, n, true));
  COXSWAIN_RETURN_IF_ERROR(check_column("retention_token_range_priorities", priorities, n, false));
  if (!durations_ms.empty()) {
    COXSWAIN_RETURN_IF_ERROR(
        check_column("retention_token_range_durations_ms", durations_ms, n, true));
  }
  Retention out;
  for (std::size_t i = 0; i < n; ++i) {
    RetentionRange range{.token_begin = static_cast<std::uint32_t>(starts[i]),
                         .priority = static_cast<std::uint32_t>(priorities[i])};
    if (ends[i] != kNone) range.token_end = static_cast<std::uint32_t>(ends[i]);
    if (!durations_ms.empty()) range.duration = duration_of(durations_ms[i]);
    out.ranges.push_back(range);
  }
  if (decode_priority) {
    if (*decode_priority < 0)
      return refuse("retention_decode_priority", ">= 0", std::to_string(*decode_priority));
    out.decode_priority = static_cast<std::uint32_t>(*decode_priority);
  }
  if (decode_duration_ms) {
    if (*decode_duration_ms < kNone)
      return refuse(
          "retention_decode_duration_ms", ">= 0, or -1", std::to_string(*decode_duration_ms));
    out.decode_duration = duration_of(*decode_duration_ms);
  }
  return out;
}

}  // namespace coxswain::manager
