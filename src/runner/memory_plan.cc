#include "runner/memory_plan.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <span>

#include <coxswain/kv_layout.h>

#include "base/numbers.h"

namespace coxswain::runner {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kReserveMin = 256 * kMiB;
constexpr std::uint64_t kReserveShare = 20;  // 1 / 20 of what is available
// A row that decodes and those in flight, as the scheduler counts them.
constexpr std::uint32_t kDecodeRowTokens = 4;

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

// Shares the bytes of the cache out to the groups. Its measure is the number of blocks of a group that keeps every
// position; what groups with a window get follows from it.
class KvDivision {
 public:
  explicit KvDivision(const MemoryRequest& request) : request_(request), n_typical_(wanted()) {
    std::uint64_t n_tokens = 0;
    for (const KvGroup& group : request_.groups) {
      if (group.kind != KvGroup::Kind::kWindow) continue;
      n_tokens =
          std::max(n_tokens, group.sink_tokens + std::uint64_t{group.window} * kWindowsOfARequest);
    }
    if (request_.total_tokens_max == 0 && n_tokens != 0)
      n_typical_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(n_typical_, n_tokens));
  }

  // Tokens of the longest request.
  std::uint32_t wanted() const {
    return request_.total_tokens_max != 0 ? request_.total_tokens_max : request_.position_max;
  }

  std::uint64_t bytes_of_equal(std::uint32_t n_blocks) const {
    std::uint64_t bytes = 0;
    for (const KvGroup& group : request_.groups) bytes += n_blocks * group.bytes_per_block;
    return bytes;
  }

  // Sets n_blocks of each group, as many as fit into `bytes`; 0 if there is no room for any.
  void share_out(std::uint64_t bytes, std::vector<KvGroup>& groups) const {
    std::uint64_t fits = 0;
    std::uint64_t too_many = n_useful() + 1;
    while (fits + 1 < too_many) {
      const std::uint64_t middle = fits + (too_many - fits) / 2;
      (bytes_of(middle) <= bytes ? fits : too_many) = middle;
    }
    const bool any = bytes_of(fits) <= bytes;
    for (KvGroup& group : groups)
      group.n_blocks = any ? static_cast<std::uint32_t>(1 + in_group(group, fits)) : 0;
  }

 private:
  std::uint64_t blocks(std::uint64_t n_tokens) const {
    return base::ceil_div<std::uint64_t>(n_tokens, request_.block_tokens);
  }
  // Of a group that keeps every position. Ids at and above the limit mark released entries of block tables.
  std::uint64_t n_useful() const {
    constexpr std::uint64_t kIds = std::numeric_limits<std::uint32_t>::max() - 2;
    return request_.kv_bytes != 0
               ? kIds
               : std::min(kIds, blocks(wanted()) * std::max(request_.batch_size_max, 1U));
  }
  std::uint64_t in_use(const KvGroup& group, std::uint32_t row_tokens) const {
    return window_blocks_max(
        group.window, group.sink_tokens, request_.block_tokens, n_typical_, row_tokens);
  }
  // Block 0 not counted. What sequences have in use while they decode, as many as the other groups have room for; and
  // once what is in use besides while a prompt is computed.
  std::uint64_t in_group(const KvGroup& group, std::uint64_t n_full) const {
    if (group.kind != KvGroup::Kind::kWindow) return n_full;
    const std::uint64_t decoding = in_use(group, kDecodeRowTokens);
    const std::uint64_t prefilling = std::max(decoding, in_use(group, request_.row_tokens_max));
    const std::uint64_t each = blocks(n_typical_);
    std::uint64_t n = each == 0 ? n_full : base::ceil_div(n_full * decoding, each);
    if (request_.kv_bytes == 0) n = std::min(n, decoding * std::max(request_.batch_size_max, 1U));
    return std::min(n_full, std::max(n, decoding) + prefilling - decoding);
  }
  std::uint64_t bytes_of(std::uint64_t n_full) const {
    std::uint64_t bytes = 0;
    for (const KvGroup& group : request_.groups)
      bytes += (1 + in_group(group, n_full)) * group.bytes_per_block;
    return bytes;
  }

  const MemoryRequest& request_;
  std::uint32_t n_typical_;
};

// "513", or "513 + 99 (window of 1024)"
std::string blocks_text(std::span<const KvGroup> groups) {
  std::string out;
  for (const KvGroup& group : groups) {
    if (!out.empty()) out += " + ";
    out += std::to_string(group.n_blocks);
    if (group.kind != KvGroup::Kind::kWindow) continue;
    out += " (window of " + std::to_string(group.window);
    if (group.sink_tokens > 0) out += ", " + std::to_string(group.sink_tokens) + " sink tokens";
    out += ")";
  }
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

bool has_room_for_own_weights(std::uint64_t available_bytes,
                              std::uint64_t weight_bytes_min,
                              std::uint64_t kv_bytes) {
  const std::uint64_t needed = 2 * weight_bytes_min + kv_bytes + reserve_bytes_of(available_bytes);
  return needed <= available_bytes;
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
  MemoryPlan plan{
      .available_bytes = request.available_bytes,
      .weight_bytes = request.weight_bytes +
                      base::ceil_div<std::uint64_t>(request.shared_weight_bytes, request.sharers),
      .shared_weight_bytes = request.shared_weight_bytes,
      .sharers = request.sharers,
      .workspace_bytes = request.workspace_bytes,
      .draft_bytes = request.draft_bytes,
      .reserve_bytes = reserve_bytes_of(request.available_bytes),
      .groups = request.groups,
      .block_tokens = request.block_tokens,
      .kv_type = request.kv_type};
  const std::uint64_t fixed =
      plan.weight_bytes + plan.workspace_bytes + plan.draft_bytes + plan.reserve_bytes;
  const std::uint64_t left = request.available_bytes > fixed ? request.available_bytes - fixed : 0;
  if (!(request.kv_fraction > 0.0 && request.kv_fraction <= 1.0)) {
    return invalid_argument(
        "`kv_fraction` must be > 0 and <= 1. Given: " + std::to_string(request.kv_fraction),
        "kv_fraction");
  }
  const auto share = static_cast<std::uint64_t>(static_cast<double>(left) * request.kv_fraction);
  const KvDivision division(request);
  const std::uint64_t asked =
      request.kv_blocks != 0 ? division.bytes_of_equal(request.kv_blocks) : request.kv_bytes;
  if (asked > left) {
    return too_little(
        "a KV cache of " + format_bytes(asked) + " was asked for, but after weights (" +
        format_bytes(plan.weight_bytes) + "), workspace (" + format_bytes(plan.workspace_bytes) +
        ") and reserve only " + format_bytes(left) + " are left; lower --kv-cache-bytes-max");
  }
  if (request.kv_blocks != 0) {
    for (KvGroup& group : plan.groups) group.n_blocks = request.kv_blocks;
  } else {
    division.share_out(asked != 0 ? asked : std::min(share, left), plan.groups);
  }
  for (const KvGroup& group : plan.groups) plan.kv_bytes += group.n_blocks * group.bytes_per_block;
  const std::uint32_t wanted = division.wanted();
  plan.kv_tokens =
      kv_capacity_tokens(plan.groups, request.block_tokens, wanted, request.row_tokens_max);
  const std::uint32_t needed =
      request.total_tokens_max != 0 ? request.total_tokens_max : request.block_tokens;
  if (plan.kv_tokens < needed) {
    return too_little(
        "the KV cache holds " + std::to_string(plan.kv_tokens) + " tokens, one request may need " +
        std::to_string(needed) + " (" + format_bytes(request.available_bytes) +
        " available, weights " + format_bytes(plan.weight_bytes) + ", workspace " +
        format_bytes(plan.workspace_bytes) + ", reserve " + format_bytes(plan.reserve_bytes) +
        "); " +
        (asked != 0
             ? "raise --kv-cache-bytes-max or lower --max-total-tokens"
             : "lower --max-total-tokens or --max-batch-prefill-tokens, or use --quantize int8"));
  }
  plan.total_tokens_max =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, plan.kv_tokens));
  return plan;
}

std::vector<std::string> MemoryPlan::to_lines() const {
  const std::uint64_t planned =
      weight_bytes + workspace_bytes + draft_bytes + kv_bytes + reserve_bytes;
  std::vector<std::string> out = {
      line("weights",
           weight_bytes,
           shared_weight_bytes == 0 ? ""
                                    : "with its part of " + format_bytes(shared_weight_bytes) +
                                          " that " + std::to_string(sharers) + " replicas share"),
      line("kv cache",
           kv_bytes,
           std::to_string(kv_tokens) + " tokens in " + blocks_text(groups) + " blocks of " +
               std::to_string(block_tokens) + (kv_type.empty() ? "" : " in " + kv_type)),
      line("workspace", workspace_bytes, ""),
      line("reserve", reserve_bytes, "left to everything else"),
      line("available",
           available_bytes,
           format_bytes(available_bytes > planned ? available_bytes - planned : 0) + " not used")};
  if (draft_bytes > 0)
    out.insert(out.begin() + 1, line("draft", draft_bytes, "weights, workspace and cache"));
  return out;
}

}  // namespace coxswain::runner
