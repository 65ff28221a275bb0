#pragma once
// RetentionRule: what a request's Retention says of one block.
//
// Thread rule: a value; it refers to the request's Retention.

#include <chrono>
#include <cstdint>
#include <optional>

#include <coxswain/retention.h>

namespace coxswain::kvcache {

struct BlockRetention {
  std::uint32_t priority = kRetentionPriorityDefault;
  std::chrono::milliseconds duration{0};  // 0: for good

  friend bool operator==(const BlockRetention&, const BlockRetention&) = default;
};

struct RetentionRule {
  const Retention* retention = nullptr;  // null: nothing is said of any block
  std::uint32_t n_prompt = 0;

  // Of the block whose first token is at `position`; nothing if nothing is said of it.
  std::optional<BlockRetention> at(std::uint32_t position) const {
    if (retention == nullptr) return std::nullopt;
    const auto made = [](std::uint32_t priority, const auto& duration) {
      return BlockRetention{.priority = priority,
                            .duration = duration.value_or(std::chrono::milliseconds{0})};
    };
    if (position >= n_prompt) {
      if (!retention->decode_priority) return std::nullopt;
      return made(*retention->decode_priority, retention->decode_duration);
    }
    for (const RetentionRange& range : retention->ranges) {
      if (position >= range.token_begin && position < range.token_end.value_or(n_prompt))
        return made(range.priority, range.duration);
    }
    return std::nullopt;
  }
};

}  // namespace coxswain::kvcache
