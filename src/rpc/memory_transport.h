#pragma once
// MemoryTransport: KV blocks from one shard to another on the same machine, past this process. The first shard lays the
// bytes into shared memory (shared_bytes.h), the second one copies them from there.
//
// Runners that are no ShardedClient, and replicas of several shards, are served as by RouterTransport. So are all, once
// a shard could not read what another one shares: they are in different containers, say.
//
// Thread rule: BlockTransport.

#include <atomic>
#include <cstdint>
#include <string_view>

#include <coxswain/block_transport.h>
#include <coxswain/status.h>

namespace coxswain::rpc {

// As RouterTransport, with the deadline of the passage where both are a ShardedClient.
Result<std::uint64_t> pass_through_here(const BlockPassage& passage);

class MemoryTransport final : public BlockTransport {
 public:
  // What is in use.
  std::string_view name() const override { return works_ ? "memory" : "router"; }
  Result<std::uint64_t> pass(const BlockPassage& passage) override;

 private:
  std::atomic<bool> works_{true};
};

}  // namespace coxswain::rpc
