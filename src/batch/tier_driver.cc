#include "batch/tier_driver.h"

#include <algorithm>
#include <utility>

#include "batch/engine_core.h"

namespace coxswain::batch {
namespace {

std::vector<TierBlock> blocks_of(std::span<const BlockKey> keys,
                                 std::span<const TokenId> tokens,
                                 std::uint32_t block_tokens) {
  std::vector<TierBlock> out;
  out.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto block = tokens.subspan(i * block_tokens, block_tokens);
    out.push_back({.key = keys[i], .tokens = {block.begin(), block.end()}});
  }
  return out;
}

}  // namespace

TierDriver::TierDriver(Parts parts) : parts_(std::move(parts)) {
  piece_blocks_ = std::min(parts_.transfers->piece_blocks_max(), kPieceBlocks);
  works_ = parts_.serves && piece_blocks_ > 0;
  for (std::size_t g = 0; g < parts_.cache->n_groups(); ++g)
    works_ &= parts_.cache->window_tokens(g) == 0;
}

// What was made for the tier and not taken would stay with the runner.
TierDriver::~TierDriver() {
  works_ = false;
  parts_.tier->forget_jobs();
  for (const std::uint64_t attachment : {exporting_, importing_}) {
    if (attachment != 0) static_cast<void>(parts_.runner->detach(attachment));
  }
}

KvTierStats TierDriver::stats() const {
  KvTierStats out = parts_.tier->stats();
  out.blocks_onboarded += n_onboarded_;
  out.blocks_skipped += n_skipped_;
  return out;
}

std::uint32_t TierDriver::piece_of(const Prefix& prefix) const {
  return std::min(piece_blocks_, prefix.end - prefix.next);
}

std::vector<TierBlock> TierDriver::next_blocks(const Prefix& prefix) const {
  const auto first = prefix.blocks.begin() + prefix.next;
  return {first, first + piece_of(prefix)};
}

void TierDriver::offload(const Sequence& s) {
  if (!works_ || s.lease.n_published() == 0) return;
  const std::uint32_t block = parts_.cache->block_tokens();
  const auto n =
      std::min(s.lease.n_published(), static_cast<std::uint32_t>(s.tokens.size()) / block);
  const auto tokens = std::span(s.tokens).first(std::size_t{n} * block);
  const std::vector<BlockKey> keys = parts_.tier->keys(s.identity, tokens, block);
  const std::uint32_t n_known = parts_.tier->n_known(keys);
  if (n_known == n) return;
  const std::uint32_t n_held_max = parts_.cache->counts(0).total / 2;
  if (!parts_.tier->takes() || offloads_.size() >= kOffloadsMax ||
      n_offload_blocks_ + n > n_held_max) {
    n_skipped_ += n - n_known;
    return;
  }
  const HeldPrefix held = parts_.transfers->hold(s.identity, tokens);
  if (held.n_blocks <= n_known) return parts_.transfers->close(held.id);
  Prefix prefix{.hold = held.id,
                .next = n_known,
                .end = held.n_blocks,
                .blocks = blocks_of(keys, tokens, block)};
  const kvcache::RetentionRule rule = s.retention_rule();
  for (std::uint32_t i = 0; i < n; ++i) {
    prefix.blocks[i].priority = rule.at(i * block).value_or(kvcache::BlockRetention{}).priority;
  }
  n_offload_blocks_ += prefix.end;
  offloads_.push_back(std::move(prefix));
  if (offloads_.size() == 1) export_next();
}

// The first of the offloads goes on, or the next one begins.
void TierDriver::export_next() {
  while (!offloads_.empty() && offloads_.front().next == offloads_.front().end) {
    parts_.transfers->close(offloads_.front().hold);
    std::vector<BlockKey> keys;  // the beginning shall go last
    for (const TierBlock& block : offloads_.front().blocks) keys.push_back(block.key);
    parts_.tier->n_known(keys);
    n_offload_blocks_ -= offloads_.front().end;
    offloads_.pop_front();
  }
  if (offloads_.empty()) return;
  const Prefix& prefix = offloads_.front();
  exporting_ = parts_.transfers->next_attachment();
  parts_.transfers->move(
      {.hold = prefix.hold,
       .first = prefix.next,
       .n = piece_of(prefix),
       .attachment = exporting_,
       .done = [this, attachment = exporting_](const Status& status) {
         Prefix& p = offloads_.front();
         if (!status.ok()) {  // nothing was made; what follows would have a hole before it
           n_skipped_ += p.end - p.next;
           p.next = p.end;
           exporting_ = 0;
           if (works_) export_next();
           return;
         }
         parts_.tier->store({.runner = parts_.runner,
                             .attachment = attachment,
                             .blocks = next_blocks(p),
                             .done = [post = parts_.post, attachment](std::uint32_t) {
                               post([attachment](EngineCore& core) {
                                 if (core.tier() != nullptr) core.tier()->stored(attachment);
                               });
                             }});
         p.next += piece_of(p);
       }});
}

void TierDriver::stored(std::uint64_t attachment) {
  if (attachment != exporting_) return;  // of another runner's time
  exporting_ = 0;
  export_next();
}

bool TierDriver::onboard(const Sequence& s) {
  if (!works_ || (s.request.prompt_logprobs && !s.prompt_complete())) return false;
  const std::uint32_t block = parts_.cache->block_tokens();
  const auto n_most = static_cast<std::uint32_t>((s.tokens.size() - 1) / block);
  const std::uint32_t n_cached = parts_.cache->probe(s.identity, s.tokens).n_blocks;
  if (n_cached >= n_most) return false;
  const auto tokens = std::span(s.tokens).first(std::size_t{n_most} * block);
  const std::vector<BlockKey> keys = parts_.tier->keys(s.identity, tokens, block);
  const std::uint32_t n = n_cached + parts_.tier->n_known(std::span(keys).subspan(n_cached));
  if (n == n_cached) return false;
  const auto used = tokens.first(std::size_t{n} * block);
  onboards_.push_back({.end = n,
                       .blocks = blocks_of(std::span(keys).first(n), used, block),
                       .identity = s.identity,
                       .tokens = {used.begin(), used.end()},
                       .sequence = s.id});
  if (onboards_.size() == 1) start_onboarding();
  return !onboards_.empty() && onboards_.back().sequence == s.id;
}

void TierDriver::start_onboarding() {
  if (onboards_.empty()) return;
  Prefix& prefix = onboards_.front();
  const auto held =
      parts_.transfers->hold_for_import(prefix.identity, prefix.tokens, prefix.end, 1);
  if (!held.ok()) return end_onboarding();
  prefix.hold = held->id;
  prefix.next = held->n_cached;
  load_next();
}

void TierDriver::load_next() {
  const Prefix& prefix = onboards_.front();
  if (prefix.next >= prefix.end) return end_onboarding();
  importing_ = parts_.transfers->next_attachment();
  parts_.tier->load({.runner = parts_.runner,
                     .attachment = importing_,
                     .blocks = next_blocks(prefix),
                     .done = [post = parts_.post, attachment = importing_](std::uint32_t n) {
                       post([attachment, n](EngineCore& core) {
                         if (core.tier() != nullptr) core.tier()->loaded(attachment, n);
                       });
                     }});
}

void TierDriver::loaded(std::uint64_t attachment, std::uint32_t n) {
  if (attachment != importing_) return;
  if (n == 0) {
    importing_ = 0;
    return end_onboarding();
  }
  const Prefix& prefix = onboards_.front();
  parts_.transfers->move({.hold = prefix.hold,
                          .comes_in = true,
                          .first = prefix.next,
                          .n = n,
                          .attachment = attachment,
                          .done = [this, n](const Status& status) { imported(n, status); }});
}

void TierDriver::imported(std::uint32_t n, const Status& status) {
  if (!status.ok()) static_cast<void>(parts_.runner->detach(importing_));
  importing_ = 0;
  if (!status.ok()) return end_onboarding();
  Prefix& prefix = onboards_.front();
  const bool whole = n == piece_of(prefix);
  prefix.next += n;
  n_onboarded_ += n;
  if (!whole) return end_onboarding();  // one of its files was not right
  load_next();
}

// What has come in is published, and the sequence goes on.
void TierDriver::end_onboarding() {
  const Prefix prefix = std::move(onboards_.front());
  onboards_.pop_front();
  if (prefix.hold != 0) parts_.transfers->close(prefix.hold, prefix.next);
  parts_.may_be_admitted(prefix.sequence);
  if (works_) start_onboarding();
}

}  // namespace coxswain::batch
