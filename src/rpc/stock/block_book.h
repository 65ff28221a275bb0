#pragma once
// BlockBook: which KV blocks of one group the live sequences of stock routers use.
//
// A stock router names the blocks itself and the shard trusts no caller: a block that one live
// sequence writes is in no other table. Blocks that a sequence only reads (its cached prefix) may
// be shared. Callers that name no blocks get free ones from us.
//
// Thread rule: one thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain::rpc {

class BlockBook {
 public:
  explicit BlockBook(std::uint32_t n_blocks) : readers_(n_blocks, 0), written_(n_blocks, false) {}

  // A block table in use. `n_shared`: so many blocks at its start are only read.
  struct Claim {
    std::vector<BlockId> table;
    std::uint32_t n_shared = 0;
  };

  // Errors: kInvalidArgument for an id outside the pool, an id that is twice in the table, or a
  // block that another claim excludes; nothing is claimed then.
  Result<Claim> claim(std::vector<BlockId> table, std::uint32_t n_shared);
  // The lowest free blocks. Errors: kResourceExhausted if there are fewer; nothing is claimed then.
  Result<Claim> allocate(std::size_t n);
  void release(const Claim& claim);

 private:
  bool is_free(BlockId id) const { return !written_[id] && readers_[id] == 0; }
  void take(const Claim& claim);

  std::vector<std::uint32_t> readers_;  // claims that share the block
  std::vector<bool> written_;
};

}  // namespace coxswain::rpc
