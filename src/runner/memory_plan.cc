#include "runner/memory_plan.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "base/numbers.h"

namespace coxswain::runner {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kReserveMin = 256 * kMiB;
constexpr std::uint64_t kReserveShare = 20;  // 1 / 20 of what is available

Status too_little(std::string message) {
  return {Code::kResourceExhausted, ErrorKind::kNone, std::move(message)};
}

std::string line(const char* what, std::uint64_t bytes, const std::string& note) {
  std::array<char, 160> text{};
  std::snprintf(
      text.data(), text.size(), "%-10s %10s  %s", what, format_bytes(bytes).c_str(), note.c_str());
  std::string out = text.data();
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 32> text{};
  const int digits = unit == 0 ? 0 : value < 10.0 ? 2 : 1;
  std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, kUnits[unit]);
  return text.data();
}

std::uint64_t reserve_bytes_of(std::uint64_t available_bytes) {
  return std::max(kReserveMin, available_bytes / kReserveShare);
}

Status check_weights_fit(std::uint64_t available_bytes, std::uint64_t weight_bytes_min) {
  const std::uint64_t needed = weight_bytes_min + reserve_bytes_of(available_bytes);
  if (needed <= available_bytes) return {};
  return too_little("the weights need at least " + format_bytes(weight_bytes_min) + " and " +
                    format_bytes(reserve_bytes_of(available_bytes)) +
                    " stay in reserve, but only " + format_bytes(available_bytes) +
                    " of memory are available; use a smaller model or --quantize int8");
}

Result<MemoryPlan> plan_memory(const MemoryRequest& request) {
  MemoryPlan plan{.available_bytes = request.available_bytes,
                  .weight_bytes = request.weight_bytes,
                  .workspace_bytes = request.workspace_bytes,
                  .reserve_bytes = reserve_bytes_of(request.available_bytes),
                  .block_tokens = request.block_tokens};
  const std::uint64_t fixed = plan.weight_bytes + plan.workspace_bytes + plan.reserve_bytes;
  const std::uint64_t left = request.available_bytes > fixed ? request.available_bytes - fixed : 0;
  const std::uint32_t wanted =
      request.total_tokens_max != 0 ? request.total_tokens_max : request.position_max;
  std::uint64_t n_blocks = request.kv_bytes / request.block_bytes;
  if (request.kv_bytes == 0) {
    const std::uint64_t useful = 1 + base::ceil_div<std::uint64_t>(wanted, request.block_tokens) *
                                         std::max(request.batch_size_max, 1u);
    n_blocks = std::min(left / request.block_bytes, useful);
  } else if (request.kv_bytes > left) {
    return too_little(
        "a KV cache of " + format_bytes(request.kv_bytes) + " was asked for, but after weights (" +
        format_bytes(plan.weight_bytes) + "), workspace (" + format_bytes(plan.workspace_bytes) +
        ") and reserve only " + format_bytes(left) + " are left; lower --kv-cache-bytes-max");
  }
  // Ids at and above this mark released entries of block tables.
  n_blocks = std::min<std::uint64_t>(n_blocks, std::numeric_limits<std::uint32_t>::max() - 1);
  const std::uint64_t needed =
      1 + (request.total_tokens_max != 0
               ? base::ceil_div<std::uint64_t>(wanted, request.block_tokens)
               : 1);
  if (n_blocks < needed) {
    const std::uint64_t wanted_min =
        request.total_tokens_max != 0 ? request.total_tokens_max : request.block_tokens;
    return too_little(
        "the KV cache holds " +
        std::to_string(n_blocks == 0 ? 0 : (n_blocks - 1) * request.block_tokens) +
        " tokens, one request may need " + std::to_string(wanted_min) + " (" +
        format_bytes(request.available_bytes) + " available, weights " +
        format_bytes(plan.weight_bytes) + ", workspace " + format_bytes(plan.workspace_bytes) +
        ", reserve " + format_bytes(plan.reserve_bytes) + "); " +
        (request.kv_bytes != 0
             ? "raise --kv-cache-bytes-max or lower --max-total-tokens"
             : "lower --max-total-tokens or --max-batch-prefill-tokens, or use --quantize int8"));
  }
  plan.n_blocks = static_cast<std::uint32_t>(n_blocks);
  plan.kv_bytes = n_blocks * request.block_bytes;
  plan.total_tokens_max =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, plan.kv_tokens()));
  return plan;
}

std::vector<std::string> MemoryPlan::to_lines() const {
  const std::uint64_t planned = weight_bytes + workspace_bytes + kv_bytes + reserve_bytes;
  return {
      line("weights", weight_bytes, ""),
      line("kv cache",
           kv_bytes,
           std::to_string(kv_tokens()) + " tokens in " + std::to_string(n_blocks) + " blocks of " +
               std::to_string(block_tokens)),
      line("workspace", workspace_bytes, ""),
      line("reserve", reserve_bytes, "left to everything else"),
      line("available",
           available_bytes,
           format_bytes(available_bytes > planned ? available_bytes - planned : 0) + " not used")};
}

}  // namespace coxswain::runner
