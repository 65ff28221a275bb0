#pragma once
// KvLayout: what the bytes of KV blocks mean. Runners with equal layouts hold equal bytes for equal histories, so
// blocks pass between them by copy; between any others they do not pass at all.
//
// A pure function of RunnerInfo. Pool sizes are no part of it.
//
// An attachment of kind kBlocks, little-endian: u32 magic, u32 length of describe(layout), that text; for each KV group
// u32 the number of its blocks; then the blocks, group by group: u64 xxh3 of the payload, the payload. The payload of a
// block is that of the group's layers in ascending order: keys [n_kv_heads, block_tokens, k_dim], values [.., v_dim].
// One of some layers alone (BlockTransfer::layers) has another magic, and u32 begin and u32 end of the range behind the
// text; its payloads are those of the group's layers in the range.
//
// Thread rule: plain values, pure functions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/step_runner.h>

namespace coxswain {

struct KvLayout {
  static constexpr std::uint32_t kVersion = 1;

  struct Group {
    KvGroup::Kind kind = KvGroup::Kind::kFull;
    std::uint32_t window = 0;
    std::uint32_t sink_tokens = 0;
    std::vector<std::uint32_t> layers = {};
    std::string dtype = {};
    std::uint32_t n_kv_heads = 0;
    std::uint32_t k_dim = 0;
    std::uint32_t v_dim = 0;
    std::uint64_t bytes_per_block = 0;

    friend bool operator==(const Group&, const Group&) = default;
  };

  std::uint64_t model_fingerprint = 0;
  std::string kernel_set_id = {};
  std::uint32_t block_tokens = 0;
  std::vector<Group> groups = {};

  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

inline KvLayout kv_layout_of(const RunnerInfo& info) {
  KvLayout out{.model_fingerprint = info.model_fingerprint,
               .kernel_set_id = info.kernel_set_id,
               .block_tokens = info.block_tokens};
  for (const KvGroup& group : info.kv_groups) {
    out.groups.push_back({.kind = group.kind,
                          .window = group.window,
                          .sink_tokens = group.sink_tokens,
                          .layers = group.layers,
                          .dtype = group.dtype,
                          .n_kv_heads = group.n_kv_heads,
                          .k_dim = group.k_dim,
                          .v_dim = group.v_dim,
                          .bytes_per_block = group.bytes_per_block});
  }
  return out;
}

// Blocks that `n_tokens` positions of a sequence take in `group`. A recurrent state is one value that moves on.
inline std::uint32_t blocks_for(const KvGroup& group,
                                std::uint32_t block_tokens,
                                std::uint32_t n_tokens) {
  if (group.kind == KvGroup::Kind::kState) return n_tokens == 0 ? 0 : 1;
  return n_tokens / block_tokens + (n_tokens % block_tokens == 0 ? 0 : 1);
}

// The most blocks of a window group that a sequence of `n_tokens` positions has in use at once, computed in rows of up
// to `row_tokens`. What has left the window is given back when a row is planned, and free again when the step before
// has retired: beside the window there are that step's row and the new one. Blocks are kept until they are computed:
// three rows, where these are longer than the window. Blocks of sink tokens are kept besides.
inline std::uint32_t window_blocks_max(std::uint32_t window,
                                       std::uint32_t sink_tokens,
                                       std::uint32_t block_tokens,
                                       std::uint32_t n_tokens,
                                       std::uint32_t row_tokens) {
  const auto blocks = [&](std::uint64_t n) { return (n + block_tokens - 1) / block_tokens; };
  const std::uint64_t rows = std::min(row_tokens, n_tokens);
  const std::uint64_t positions = std::max(window + 2 * rows, 3 * rows);
  return static_cast<std::uint32_t>(
      std::min(blocks(n_tokens), blocks(sink_tokens) + blocks(positions) + 1));
}

// Tokens of requests that the cache serves at once, where the longest request has `n_tokens_max` and rows are up to
// `row_tokens`: what the blocks hold of groups that keep every position. Where all groups have windows, sequences leave
// blocks behind: then it is the tokens of as many of the longest requests as fit, if that is more.
inline std::uint64_t kv_capacity_tokens(std::span<const KvGroup> groups,
                                        std::uint32_t block_tokens,
                                        std::uint32_t n_tokens_max,
                                        std::uint32_t row_tokens) {
  std::uint64_t full = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t windows = full;
  bool any_full = false;
  for (const KvGroup& group : groups) {
    if (group.kind == KvGroup::Kind::kState) continue;
    // Block 0 is no one's.
    const std::uint32_t usable = group.n_blocks > 0 ? group.n_blocks - 1 : 0;
    const std::uint64_t held = std::uint64_t{usable} * block_tokens;
    if (group.kind != KvGroup::Kind::kWindow) {
      any_full = true;
      full = std::min(full, held);
      continue;
    }
    const std::uint32_t each =
        window_blocks_max(group.window, group.sink_tokens, block_tokens, n_tokens_max, row_tokens);
    const std::uint64_t longest = each == 0 ? 0 : std::uint64_t{usable / each} * n_tokens_max;
    windows = std::min(windows, std::max(held, longest));
  }
  return any_full ? full : windows;
}

// The longest block table of a sequence: entries of a window group may be released, so there can be more than blocks.
inline std::uint64_t table_entries_max(KvGroup::Kind kind,
                                       std::uint64_t n_blocks,
                                       std::uint64_t block_tokens,
                                       std::uint64_t n_tokens_max) {
  if (kind != KvGroup::Kind::kWindow) return n_blocks;
  return std::max(n_blocks, (n_tokens_max + block_tokens - 1) / block_tokens);
}

// One `name=value` a line, the same text for equal layouts only.
inline std::string describe(const KvLayout& layout) {
  std::string out;
  const auto line = [&](const std::string& name, const std::string& value) {
    out += name + "=" + value + "\n";
  };
  line("version", std::to_string(KvLayout::kVersion));
  line("model_fingerprint", std::to_string(layout.model_fingerprint));
  line("kernel_set_id", layout.kernel_set_id);
  line("block_tokens", std::to_string(layout.block_tokens));
  line("kv_groups", std::to_string(layout.groups.size()));
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const KvLayout::Group& group = layout.groups[g];
    const std::string name = "kv_groups[" + std::to_string(g) + "].";
    std::string layers;
    for (const std::uint32_t layer : group.layers) layers += std::to_string(layer) + " ";
    line(name + "kind", std::to_string(static_cast<int>(group.kind)));
    line(name + "window", std::to_string(group.window));
    if (group.sink_tokens > 0) line(name + "sink_tokens", std::to_string(group.sink_tokens));
    line(name + "layers", layers);
    line(name + "dtype", group.dtype);
    line(name + "n_kv_heads", std::to_string(group.n_kv_heads));
    line(name + "k_dim", std::to_string(group.k_dim));
    line(name + "v_dim", std::to_string(group.v_dim));
    line(name + "bytes_per_block", std::to_string(group.bytes_per_block));
  }
  return out;
}

// What `layers` have of a block of the group.
inline std::uint64_t bytes_per_block(const KvLayout::Group& group, const LayerRange& layers) {
  if (layers == LayerRange{} || group.layers.empty()) return group.bytes_per_block;
  const auto n = static_cast<std::uint64_t>(std::ranges::count_if(
      group.layers, [&](std::uint32_t i) { return i >= layers.begin && i < layers.end; }));
  return group.bytes_per_block / group.layers.size() * n;
}

// Bytes of an attachment of kind kBlocks with n_blocks[g] blocks of each group.
inline std::uint64_t blocks_attachment_bytes(const KvLayout& layout,
                                             std::span<const std::uint32_t> n_blocks,
                                             const LayerRange& layers = {}) {
  std::uint64_t bytes = 2 * sizeof(std::uint32_t) + describe(layout).size() +
                        layout.groups.size() * sizeof(std::uint32_t);
  if (layers != LayerRange{}) bytes += 2 * sizeof(std::uint32_t);
  for (std::size_t g = 0; g < layout.groups.size(); ++g)
    bytes += n_blocks[g] * (sizeof(std::uint64_t) + bytes_per_block(layout.groups[g], layers));
  return bytes;
}

// The first lines in which two descriptions differ: "a=1, here a=2". Empty if they are the same.
inline std::string difference(std::string_view theirs, std::string_view ours) {
  while (!theirs.empty() || !ours.empty()) {
    const std::string_view a = theirs.substr(0, theirs.find('\n'));
    const std::string_view b = ours.substr(0, ours.find('\n'));
    if (a != b) return std::string(a) + ", here " + std::string(b);
    theirs.remove_prefix(std::min(theirs.size(), a.size() + 1));
    ours.remove_prefix(std::min(ours.size(), b.size() + 1));
  }
  return {};
}

}  // namespace coxswain
