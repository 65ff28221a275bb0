#pragma once
// Retention: which cached blocks of a request are kept longer than others when room is needed. Names and meaning are
// those of TensorRT-LLM's KvCacheRetentionConfig, as its documentation has them.
//
// Of blocks that nobody uses the one of the lowest priority goes first, of those the one unused for longest. A block
// that other cached blocks continue goes after these, whatever its priority. 100 means last, not pinned; blocks in use
// are never evicted.
//
// Thread rule: values.

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace coxswain {

inline constexpr std::uint32_t kRetentionPriorityMax = 100;
inline constexpr std::uint32_t kRetentionPriorityDefault = 35;

// A block takes the range that covers its first token.
struct RetentionRange {
  std::uint32_t token_begin = 0;
  std::optional<std::uint32_t> token_end = {};  // exclusive; none: to the end of the prompt
  std::uint32_t priority = kRetentionPriorityDefault;
  // So long after its last use the block has the default priority again; none: for good.
  std::optional<std::chrono::milliseconds> duration = {};

  friend bool operator==(const RetentionRange&, const RetentionRange&) = default;
};

// What a request says of its blocks. Where it says nothing a new block has the default priority, and one that was there
// keeps what it has; where it does it replaces what an earlier request has said.
struct Retention {
  std::vector<RetentionRange> ranges = {};  // of the prompt; they do not overlap
  // Of blocks whose first token is generated.
  std::optional<std::uint32_t> decode_priority = {};
  std::optional<std::chrono::milliseconds> decode_duration = {};  // needs decode_priority

  friend bool operator==(const Retention&, const Retention&) = default;
};

// Bounds of the above, so that a request can hold no more than it should.
inline constexpr std::uint32_t kRetentionRangesMax = 1024;
inline constexpr std::chrono::milliseconds kRetentionDurationMax{std::chrono::hours{24 * 365}};

}  // namespace coxswain
