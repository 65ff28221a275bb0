#pragma once
// KvEvent: what becomes of an engine's cached prefixes, for a program that mirrors them (a router of many engines).
// Names are TensorRT-LLM's KVCacheEvent.
//
// KV groups that keep every position hold a cached block together and tell of it once, as the first of them. A group
// with a window tells of its own blocks: a prefix can be used up to a block where each of them has what it sees.
//
// A hash stands for a block and all before it: SipHash-2-4 under the key 0 of the tokens (int32, little endian) with
// the hash of the block before as the first half of the key; before the first block, of everything that decides what a
// block holds (kernel set, adapter, salt, rope variant). So equal prefixes of equal engines have equal hashes, in
// every process and at every time. It is no proof: whoever chooses tokens could
// make two of one hash, so tokens are compared.
//
// A cache level says where a block is: 0 the cache itself, 1 memory behind it, 2 files (ExecutorOptions:
// kv_host_bytes_max, kv_spill_path). What is in several is told of as of the fastest: a block that the cache evicts and
// that a level behind it has is updated, not removed. What a former process has left in files is told of once this one
// has come across it.
//
// Thread rule: values.

#include <cstdint>
#include <vector>

#include <coxswain/types.h>

namespace coxswain {

struct KvEventBlock {
  std::uint64_t hash = 0;
  std::vector<TokenId> tokens = {};      // of kStored
  std::uint32_t priority = 0;            // of kStored and kUpdated: 0 to 100
  std::uint32_t priority_before = 0;     // of kUpdated
  std::uint32_t cache_level = 0;         // of kStored and kUpdated
  std::uint32_t cache_level_before = 0;  // of kUpdated

  friend bool operator==(const KvEventBlock&, const KvEventBlock&) = default;
};

struct KvEvent {
  enum class Kind : std::uint8_t {
    kCreated,  // an empty pool of n_blocks: at the start and for each new runner; what was told of the group is over
    kStored,   // each block continues the one before it, the first one that of `parent`
    kRemoved,  // evicted, and in no level
    kUpdated,  // another priority or cache level
  };
  // Counts up from 1; a hole means that the reader was too slow for the buffer.
  std::uint64_t id = 0;
  Kind kind = Kind::kStored;
  std::uint32_t kv_group = 0;
  std::uint32_t window_tokens = 0;  // of the group; 0 = every position is kept
  std::uint32_t n_blocks = 0;       // of kCreated
  // Of kCreated: how many blocks the levels behind the cache, if there are any, have room for at least, level 1 first.
  std::vector<std::uint32_t> tier_blocks = {};
  std::uint64_t parent = 0;  // of kStored
  std::vector<KvEventBlock> blocks = {};

  friend bool operator==(const KvEvent&, const KvEvent&) = default;
};

// What has come since the last reading, oldest first.
struct KvEvents {
  std::vector<KvEvent> events = {};
  std::uint64_t n_lost = 0;  // since the last reading: the buffer was full, and the oldest went

  friend bool operator==(const KvEvents&, const KvEvents&) = default;
};

}  // namespace coxswain
