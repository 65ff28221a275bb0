#include "kvspill/block_file.h"

#include <algorithm>
#include <xxhash.h>
#include <zstd.h>

#include "base/raw_bytes.h"

namespace coxswain::kvspill {
namespace {

using base::append_raw;
using base::raw_at;

constexpr std::string_view kMagic = "CXKVBLK\n";
constexpr std::string_view kImageMagic = "CXKV";
// Faster than a disk, and keys and values shrink little however long one tries.
constexpr int kZstdLevel = 1;

std::uint64_t sum_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string_view text_of(std::span<const TokenId> tokens) {
  const auto bytes = std::as_bytes(tokens);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status differs(const char* field, std::uint64_t found, std::uint64_t expected) {
  return invalid_argument(std::string(field) + ": found " + std::to_string(found) + ", expected " +
                          std::to_string(expected));
}

bool has(std::uint32_t groups, std::size_t group) {
  return (groups >> group & 1U) != 0;
}

std::uint64_t group_bytes(const KvLayout& layout, std::size_t group) {
  return sizeof(std::uint64_t) + layout.groups[group].bytes_per_block;
}

// How many of the blocks each group has.
std::vector<std::uint32_t> counts_of(const KvLayout& layout,
                                     std::span<const std::uint32_t> groups) {
  std::vector<std::uint32_t> out(layout.groups.size(), 0);
  for (std::size_t g = 0; g < out.size(); ++g) {
    out[g] = static_cast<std::uint32_t>(
        std::ranges::count_if(groups, [&](std::uint32_t of) { return has(of, g); }));
  }
  return out;
}

std::string image_head(const KvLayout& layout, std::span<const std::uint32_t> counts) {
  const std::string text = describe(layout);
  std::string out(kImageMagic);
  append_raw(out, static_cast<std::uint32_t>(text.size()));
  out += text;
  for (const std::uint32_t n : counts) append_raw(out, n);
  return out;
}

// What the head says, against what it should say.
Status check_head(std::uint64_t layout_hash,
                  const batch::TierBlock& block,
                  std::uint64_t block_bytes,
                  std::string_view file) {
  if (!file.starts_with(kMagic)) return invalid_argument("holds no KV block");
  if (file.size() < kBlockFileHeadBytes)
    return {Code::kDataLoss, "is cut off at " + std::to_string(file.size()) + " bytes"};
  if (raw_at<std::uint64_t>(file, 80) != sum_of(file.substr(0, 80)))
    return {Code::kDataLoss, "the checksum of its head is wrong"};
  struct Field {
    const char* name;
    std::uint64_t found;
    std::uint64_t expected;
  };
  const Field fields[] = {
      {"version", raw_at<std::uint32_t>(file, 8), kBlockFileVersion},
      {"tokens", raw_at<std::uint32_t>(file, 12), block.tokens.size()},
      {"key", raw_at<std::uint64_t>(file, 16), block.key.high},
      {"key", raw_at<std::uint64_t>(file, 24), block.key.low},
      {"layout", raw_at<std::uint64_t>(file, 32), layout_hash},
      {"bytes", raw_at<std::uint64_t>(file, 40), block_bytes},
      {"checksum of the tokens", raw_at<std::uint64_t>(file, 64), sum_of(text_of(block.tokens))},
      {"groups", raw_at<std::uint64_t>(file, 72), block.groups},
  };
  for (const Field& f : fields) {
    if (f.found != f.expected) return differs(f.name, f.found, f.expected);
  }
  return {};
}

}  // namespace

std::uint64_t layout_hash(const KvLayout& layout) {
  return sum_of(describe(layout));
}

std::uint64_t block_bytes(const KvLayout& layout, std::uint32_t groups) {
  std::uint64_t out = 0;
  for (std::size_t g = 0; g < layout.groups.size(); ++g)
    out += has(groups, g) ? group_bytes(layout, g) : 0;
  return out;
}

std::string select_groups(const KvLayout& layout,
                          std::uint32_t groups,
                          std::string_view bytes,
                          std::uint32_t wanted) {
  if (groups == wanted) return std::string(bytes);
  std::string out;
  std::size_t at = 0;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    if (has(wanted, g)) out += bytes.substr(at, group_bytes(layout, g));
    at += has(groups, g) ? group_bytes(layout, g) : 0;
  }
  return out;
}

std::string merge_groups(const KvLayout& layout,
                         std::uint32_t first_groups,
                         std::string_view first,
                         std::uint32_t second_groups,
                         std::string_view second) {
  std::string out;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const std::uint64_t n = group_bytes(layout, g);
    const bool in_first = has(first_groups, g);
    const bool in_second = has(second_groups, g);
    if (in_first || in_second) out += (in_first ? first : second).substr(0, n);
    if (in_first) first.remove_prefix(n);
    if (in_second) second.remove_prefix(n);
  }
  return out;
}

std::uint64_t write_bytes_max(std::uint64_t n_bytes, std::uint64_t n_tokens) {
  return kBlockFileHeadBytes + n_tokens * sizeof(TokenId) + ZSTD_compressBound(n_bytes);
}

std::string write_block(std::uint64_t layout_hash,
                        const batch::TierBlock& block,
                        std::string_view bytes) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), kZstdLevel));
  std::string out(kMagic);
  append_raw(out, kBlockFileVersion);
  append_raw(out, static_cast<std::uint32_t>(block.tokens.size()));
  append_raw(out, block.key.high);
  append_raw(out, block.key.low);
  append_raw(out, layout_hash);
  append_raw(out, std::uint64_t{bytes.size()});
  append_raw(out, std::uint64_t{frame.size()});
  append_raw(out, sum_of(frame));
  append_raw(out, sum_of(text_of(block.tokens)));
  append_raw(out, std::uint64_t{block.groups});
  append_raw(out, sum_of(out));
  out += text_of(block.tokens);
  return out += frame;
}

Result<std::string> read_block(std::uint64_t layout_hash,
                               const batch::TierBlock& block,
                               std::uint64_t block_bytes,
                               std::string_view file) {
  COXSWAIN_RETURN_IF_ERROR(check_head(layout_hash, block, block_bytes, file));
  const auto frame_bytes = raw_at<std::uint64_t>(file, 48);
  const auto frame_sum = raw_at<std::uint64_t>(file, 56);
  const std::string_view tokens = text_of(block.tokens);
  file.remove_prefix(kBlockFileHeadBytes);
  if (file.size() < tokens.size() || file.size() - tokens.size() != frame_bytes) {
    return Status(Code::kDataLoss,
                  "length: found " + std::to_string(file.size()) + " bytes behind the head, " +
                      "expected " + std::to_string(tokens.size()) + " and " +
                      std::to_string(frame_bytes));
  }
  if (!file.starts_with(tokens)) return invalid_argument("holds a block of other tokens");
  const std::string_view frame = file.substr(tokens.size());
  if (sum_of(frame) != frame_sum)
    return Status(Code::kDataLoss, "the checksum of its frame is wrong");
  std::string out(block_bytes, '\0');
  const std::size_t n = ZSTD_decompress(out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(n) != 0) return Status(Code::kDataLoss, ZSTD_getErrorName(n));
  if (n != block_bytes) return differs("bytes", n, block_bytes);
  return out;
}

Result<std::vector<std::string>> split_image(const KvLayout& layout,
                                             std::string_view image,
                                             std::span<const std::uint32_t> groups) {
  const std::vector<std::uint32_t> counts = counts_of(layout, groups);
  const std::string head = image_head(layout, counts);
  if (!image.starts_with(head) || image.size() != blocks_attachment_bytes(layout, counts))
    return internal_error("the runner made an attachment of other blocks");
  std::vector<std::string> out(groups.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i].reserve(block_bytes(layout, groups[i]));
  std::size_t at = head.size();
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!has(groups[i], g)) continue;
      out[i] += image.substr(at, group_bytes(layout, g));
      at += group_bytes(layout, g);
    }
  }
  return out;
}

std::string join_image(const KvLayout& layout,
                       std::span<const std::string> blocks,
                       std::span<const std::uint32_t> groups) {
  const std::vector<std::uint32_t> counts = counts_of(layout, groups);
  std::string out = image_head(layout, counts);
  out.reserve(blocks_attachment_bytes(layout, counts));
  std::vector<std::size_t> at(blocks.size(), 0);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!has(groups[i], g)) continue;
      out.append(blocks[i], at[i], group_bytes(layout, g));
      at[i] += group_bytes(layout, g);
    }
  }
  return out;
}

}  // namespace coxswain::kvspill
