#pragma once
// FleetTransport: KV blocks from one shard to another by the shortest way that there is. On one machine that is shared
// memory (memory_transport.h). From a shard on another machine the second shard takes them itself: this process asks
// the first for a ticket, gives it to the second, and sees no block. The second one says whether it took them by UCX.
// Where that fails the blocks pass through this process, and the pair of shards is tried again after kPairPause.
//
// Thread rule: BlockTransport.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <coxswain/block_transport.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/mutex.h"
#include "rpc/memory_transport.h"
#include "telemetry/log.h"

namespace coxswain::rpc {

class ShardedClient;

class FleetTransport final : public BlockTransport {
 public:
  static constexpr std::chrono::seconds kPairPause{10};

  // `any_remote`: some replica is on another machine. The log must outlive this.
  FleetTransport(bool any_remote, telemetry::Logger& log) : log_(log), remote_(any_remote) {}

  // "ucx", "tcp" or "router" between machines, as it was the last time; otherwise that of MemoryTransport.
  std::string_view name() const override;
  Result<std::uint64_t> pass(const BlockPassage& passage) override;

 private:
  enum class Way : std::uint8_t { kTcp, kUcx, kRouter };
  using Pair = std::pair<std::string, std::string>;
  Result<std::uint64_t> pass_directly(ShardedClient& from,
                                      ShardedClient& to,
                                      const BlockPassage& passage);
  Result<std::uint64_t> pass_by_router(const BlockPassage& passage);
  bool rests(const Pair& pair);

  telemetry::Logger& log_;
  const bool remote_;
  std::atomic<Way> last_{Way::kTcp};
  MemoryTransport memory_;
  base::Mutex mu_;
  std::map<Pair, TimePoint> failed_ GUARDED_BY(mu_);
};

}  // namespace coxswain::rpc
