#include "batch/testing/fake_tier.h"

#include <algorithm>
#include <string_view>

#include <coxswain/kv_layout.h>

#include "base/keyed_hash.h"
#include "base/raw_bytes.h"

namespace coxswain::batch::testing {
namespace {

std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t above, std::uint64_t which) {
  return base::sip_hash(bytes, {above, which}, base::kSip24);
}

// Of an attachment of blocks (kv_layout.h), up to the blocks.
std::string image_head(const RunnerInfo& info, const std::vector<std::uint32_t>& n_blocks) {
  const std::string text = describe(kv_layout_of(info));
  std::string out = "CXKV";
  base::append_raw(out, static_cast<std::uint32_t>(text.size()));
  out += text;
  for (const std::uint32_t n : n_blocks) base::append_raw(out, n);
  return out;
}

std::vector<std::uint32_t> count_blocks(const RunnerInfo& info, std::span<const TierBlock> blocks) {
  std::vector<std::uint32_t> out(info.kv_groups.size());
  for (const TierBlock& block : blocks) {
    for (std::size_t g = 0; g < out.size(); ++g) out[g] += block.groups >> g & 1U;
  }
  return out;
}

}  // namespace

FakeTier::FakeTier(const RunnerInfo& info, std::uint32_t n_blocks_max)
    : info_(info), n_blocks_max_(n_blocks_max) {}

std::vector<BlockKey> FakeTier::keys(std::string_view identity,
                                     std::span<const TokenId> tokens,
                                     std::uint32_t block_tokens) const {
  const auto text = std::as_bytes(std::span(identity));
  BlockKey above{.high = hash(text, 0, 1), .low = hash(text, 0, 2)};
  std::vector<BlockKey> out;
  for (std::size_t at = 0; at + block_tokens <= tokens.size(); at += block_tokens) {
    const auto block = std::as_bytes(tokens.subspan(at, block_tokens));
    above = {.high = hash(block, above.high, 1), .low = hash(block, above.low, 2)};
    out.push_back(above);
  }
  return out;
}

std::vector<TierPlace> FakeTier::places(std::span<const BlockKey> keys) const {
  std::vector<TierPlace> out;
  for (const BlockKey& key : keys) {
    TierPlace& place = out.emplace_back();
    const auto it = held_.find(key);
    if (it == held_.end()) continue;
    for (const auto& [group, bytes] : it->second.bytes) place.groups |= std::uint32_t{1} << group;
    place.level = 1;
    place.priority = it->second.priority;
  }
  return out;
}

void FakeTier::touch(std::span<const BlockKey> keys) {
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (const auto it = held_.find(keys[i]); it != held_.end()) it->second.used_at = ++n_uses_;
  }
}

bool FakeTier::serves(const RunnerInfo& info) const {
  return describe(kv_layout_of(info)) == describe(kv_layout_of(info_));
}

KvTierStats FakeTier::stats() const {
  return {.blocks_offloaded = n_offloaded_, .memory_blocks_held = held_.size()};
}

bool FakeTier::do_one() {
  if (jobs_.empty()) return false;
  auto it = std::ranges::find(jobs_, false, &Job::stores);
  if (it == jobs_.end()) it = jobs_.begin();
  const Job next = std::move(*it);
  jobs_.erase(it);
  TierDone done{.took = took};
  done.n_blocks =
      next.stores ? do_store(next.job, draw_fault(), done) : do_load(next.job, draw_fault());
  next.job.done(std::move(done));
  return true;
}

void FakeTier::make_room(TierDone& done) {
  while (held_.size() > n_blocks_max_) {
    const auto oldest =
        std::ranges::min_element(held_, {}, [](const auto& each) { return each.second.used_at; });
    done.moved.emplace_back(oldest->first, TierPlace{});
    held_.erase(oldest);
  }
}

std::uint32_t FakeTier::do_store(const TierJob& job, Fault fault, TierDone& done) {
  ++n_stored_;
  const auto image = job.runner->take(job.attachment);
  const std::string head = image_head(info_, count_blocks(info_, job.blocks));
  if (!image.ok() || !image->bytes.starts_with(head) || fault == Fault::kLost) return 0;
  const std::string_view bytes = image->bytes;
  std::uint32_t n_kept = 0;
  std::size_t at = head.size();
  for (std::size_t g = 0; g < info_.kv_groups.size(); ++g) {
    const std::size_t size = sizeof(std::uint64_t) + info_.kv_groups[g].bytes_per_block;
    for (const TierBlock& block : job.blocks) {
      if ((block.groups >> g & 1U) == 0) continue;
      if (fault != Fault::kCut || block.key.low % 2 == 0) {
        Held& held = held_[block.key];
        n_kept += held.bytes.empty() ? 1 : 0;
        std::string& kept = held.bytes[static_cast<std::uint32_t>(g)] = bytes.substr(at, size);
        if (fault == Fault::kBroken) kept.back() = static_cast<char>(kept.back() ^ 1);
        held.tokens = block.tokens;
        held.priority = block.priority;
        held.used_at = ++n_uses_;
      }
      at += size;
    }
  }
  n_offloaded_ += n_kept;
  make_room(done);
  std::vector<BlockKey> keys;
  keys.reserve(job.blocks.size());
  for (const TierBlock& block : job.blocks) keys.push_back(block.key);
  const std::vector<TierPlace> now = places(keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (std::ranges::find(done.moved, keys[i], &std::pair<BlockKey, TierPlace>::first) ==
        done.moved.end())
      done.moved.emplace_back(keys[i], now[i]);
  }
  return n_kept;
}

std::uint32_t FakeTier::do_load(const TierJob& job, Fault fault) {
  ++n_loaded_;
  if (fault == Fault::kLost) return 0;
  std::vector<TierBlock> found;
  for (const TierBlock& block : job.blocks) {
    const TierPlace place = places(std::span(&block.key, 1))[0];
    if ((block.groups & ~place.groups) != 0) break;
    if (fault == Fault::kCut && !found.empty()) break;
    found.push_back(block);
  }
  if (found.empty()) return 0;
  std::string image = image_head(info_, count_blocks(info_, found));
  for (std::uint32_t g = 0; g < info_.kv_groups.size(); ++g) {
    for (const TierBlock& block : found) {
      if ((block.groups >> g & 1U) != 0) image += held_.at(block.key).bytes.at(g);
    }
  }
  if (fault == Fault::kBroken) image.back() = static_cast<char>(image.back() ^ 1);
  const Status status = job.runner->attach(
      {.id = job.attachment, .kind = AttachmentKind::kBlocks, .bytes = std::move(image)});
  if (status.ok()) return static_cast<std::uint32_t>(found.size());
  for (const TierBlock& block : found) held_.erase(block.key);
  return 0;
}

}  // namespace coxswain::batch::testing
