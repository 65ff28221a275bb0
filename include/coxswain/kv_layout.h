#pragma once
// KvLayout: what the bytes of KV blocks mean. Runners with equal layouts hold equal bytes for equal histories, so
// blocks pass between them by copy; between any others they do not pass at all.
//
// A pure function of RunnerInfo. Pool sizes are no part of it.
//
// An attachment of kind kBlocks, little-endian: u32 magic, u32 length of describe(layout), that text; for each KV group
// u32 the number of its blocks; then the blocks, group by group: u64 xxh3 of the payload, the payload. The payload of a
// block is that of the group's layers in ascending order: keys [n_kv_heads, block_tokens, k_dim], values [.., v_dim].
//
// Thread rule: plain values, pure functions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
    line(name + "layers", layers);
    line(name + "dtype", group.dtype);
    line(name + "n_kv_heads", std::to_string(group.n_kv_heads));
    line(name + "k_dim", std::to_string(group.k_dim));
    line(name + "v_dim", std::to_string(group.v_dim));
    line(name + "bytes_per_block", std::to_string(group.bytes_per_block));
  }
  return out;
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
