#pragma once
// BlockFile: one KV block of the file tier, as bytes of a file.
//
// Little-endian, 88 bytes and what they announce:
//
//   "CXKVBLK\n"  u32 version  u32 tokens
//   u64, u64 key  u64 xxh3 of the layout  u64 bytes of the block  u64 bytes of the frame  u64 xxh3 of the frame
//   u64 xxh3 of the tokens  u64 0
//   u64 xxh3 of the 80 bytes before
//   int32 [tokens]
//   a zstd frame: for each KV group the checksum of its payload and the payload, as in an attachment (kv_layout.h)
//
// Thread rule: pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/kv_layout.h>
#include <coxswain/status.h>

#include "batch/block_tier.h"

namespace coxswain::kvspill {

inline constexpr std::uint32_t kBlockFileVersion = 1;
inline constexpr std::size_t kBlockFileHeadBytes = 88;

// What all files of a folder are of.
std::uint64_t layout_hash(const KvLayout& layout);

std::string write_block(std::uint64_t layout_hash,
                        const batch::TierBlock& block,
                        std::string_view bytes);

// The bytes of the block. Errors: kDataLoss: cut off or a wrong checksum; kInvalidArgument: no block, another version,
// another block than the one that is asked for, or another layout or size.
Result<std::string> read_block(std::uint64_t layout_hash,
                               const batch::TierBlock& block,
                               std::uint64_t block_bytes,
                               std::string_view file);

// Bytes of a block of all groups with their checksums.
std::uint64_t block_bytes(const KvLayout& layout);

// An attachment of blocks <-> the bytes of each. REQUIRES of split: the attachment is a runner's own, of n blocks in
// every group; kInternal if it has another size.
Result<std::vector<std::string>> split_image(const KvLayout& layout,
                                             std::string_view image,
                                             std::uint32_t n);
std::string join_image(const KvLayout& layout, std::span<const std::string> blocks);

}  // namespace coxswain::kvspill
