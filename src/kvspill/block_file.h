#pragma once
// BlockFile: one KV block of the file tier, as bytes of a file.
//
// Little-endian, 88 bytes and what they announce:
//
//   "CXKVBLK\n"  u32 version  u32 tokens
//   u64, u64 key  u64 xxh3 of the layout  u64 bytes of the block  u64 bytes of the frame  u64 xxh3 of the frame
//   u64 xxh3 of the tokens  u64 the KV groups, a bit for each
//   u64 xxh3 of the 80 bytes before
//   int32 [tokens]
//   a zstd frame: for each of these groups the checksum of its payload and the payload, as an attachment has them
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

inline constexpr std::uint32_t kBlockFileVersion = 2;
inline constexpr std::size_t kBlockFileHeadBytes = 88;

// What all files of a folder are of.
std::uint64_t layout_hash(const KvLayout& layout);

// The most that write_block() makes of so many bytes and tokens.
std::uint64_t write_bytes_max(std::uint64_t n_bytes, std::uint64_t n_tokens);
std::string write_block(std::uint64_t layout_hash,
                        const batch::TierBlock& block,
                        std::string_view bytes);

// The bytes of the block. Errors: kDataLoss: cut off or a wrong checksum; kInvalidArgument: no block, another version,
// another block than the one that is asked for or of other groups, or another layout or size.
Result<std::string> read_block(std::uint64_t layout_hash,
                               const batch::TierBlock& block,
                               std::uint64_t block_bytes,
                               std::string_view file);

// Bytes of a block of these groups with their checksums.
std::uint64_t block_bytes(const KvLayout& layout, std::uint32_t groups);

// Of the bytes of a block those of `wanted`. REQUIRES: they are among `groups`.
std::string select_groups(const KvLayout& layout,
                          std::uint32_t groups,
                          std::string_view bytes,
                          std::uint32_t wanted);
// The bytes of both; where a group is in both, those of the first.
std::string merge_groups(const KvLayout& layout,
                         std::uint32_t first_groups,
                         std::string_view first,
                         std::uint32_t second_groups,
                         std::string_view second);

// An attachment of blocks <-> the bytes of each, where block i has groups[i]. REQUIRES of split: the attachment is a
// runner's own; kInternal if it has another size.
Result<std::vector<std::string>> split_image(const KvLayout& layout,
                                             std::string_view image,
                                             std::span<const std::uint32_t> groups);
std::string join_image(const KvLayout& layout,
                       std::span<const std::string> blocks,
                       std::span<const std::uint32_t> groups);

}  // namespace coxswain::kvspill
