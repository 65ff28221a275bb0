#include "batch/tier_driver.h"

#include <algorithm>
#include <set>
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

std::uint32_t priority_of(const kvcache::RetentionRule& rule, std::uint32_t first_token) {
  return rule.at(first_token).value_or(kvcache::BlockRetention{}).priority;
}

}  // namespace

TierDriver::TierDriver(Parts parts) : parts_(std::move(parts)) {
  piece_blocks_ = std::min(parts_.transfers->piece_blocks_max(), kPieceBlocks);
  works_ = parts_.serves && piece_blocks_ > 0;
}

// What was made for the tier and not taken would stay with the runner.
TierDriver::~TierDriver() {
  works_ = false;
  if (parts_.serves) parts_.tier->forget_jobs();
  for (const std::uint64_t attachment : {exporting_, importing_}) {
    if (attachment != 0) static_cast<void>(parts_.runner->detach(attachment));
  }
}

KvTierStats TierDriver::stats() const {
  KvTierStats out = parts_.tier->stats();
  out.blocks_onboarded += n_onboarded_;
  out.blocks_skipped += n_skipped_;
  out.paused_blocks_offloaded += n_paused_offloaded_;
  out.paused_blocks_onboarded += n_paused_onboarded_;
  return out;
}

void TierDriver::Pace::note(std::chrono::nanoseconds took, std::size_t n_blocks) {
  constexpr double kKept = 0.75;
  if (n_blocks == 0) return;
  const double now = std::chrono::duration<double>(took).count() / static_cast<double>(n_blocks);
  seconds = seconds > 0 ? kKept * seconds + (1 - kKept) * now : now;
}

std::uint32_t TierDriver::on_loan(std::size_t group) const {
  std::uint32_t n = 0;
  for (const Prefix& prefix : paused_) n += parts_.transfers->reclaimable(prefix.hold, group);
  return n;
}

TierDriver::Piece TierDriver::piece_of(const Prefix& prefix) const {
  const std::uint32_t n = std::min(piece_blocks_, prefix.end - prefix.next);
  return {.first = prefix.paused ? prefix.end - n : prefix.next, .n = n};
}

// Those that have something to move.
std::vector<TierBlock> TierDriver::blocks_in(const Prefix& prefix, Piece piece) {
  std::vector<TierBlock> out;
  for (std::uint32_t i = piece.first; i < piece.first + piece.n; ++i) {
    if (prefix.blocks[i].groups != 0) out.push_back(prefix.blocks[i]);
  }
  return out;
}

// Blocks of a prefix that are held of a group.
std::uint32_t TierDriver::n_held(std::size_t group, std::uint32_t n_blocks) const {
  const std::uint32_t from = parts_.cache->seen_from(group, n_blocks);
  return n_blocks - from + std::min(parts_.cache->n_sinks(group), from);
}

bool TierDriver::has_room_for(std::uint32_t n_blocks) const {
  for (std::size_t g = 0; g < parts_.cache->n_groups(); ++g) {
    std::uint32_t n = n_held(g, n_blocks);
    for (const auto* offloads : {&offloads_, &paused_}) {
      for (const Prefix& prefix : *offloads) n += parts_.transfers->n_held(prefix.hold, g);
    }
    if (n > parts_.cache->counts(g).total / 2) return false;
  }
  return true;
}

// Blocks that one paused sequence may have: what comes displaces what was used longest ago.
std::uint32_t TierDriver::n_paused_max() const {
  const std::vector<std::uint32_t> capacity = parts_.tier->capacity();
  return capacity.empty() ? 0 : std::ranges::max(capacity) / 2;
}

// What the position behind the first `end` blocks sees moves.
void TierDriver::set_groups(Prefix& prefix, std::uint32_t end) const {
  prefix.end = end;
  for (std::uint32_t i = 0; i < end; ++i) {
    std::uint32_t& groups = prefix.blocks[i].groups;
    groups = 0;
    for (std::size_t g = 0; g < parts_.cache->n_groups(); ++g) {
      if (i < parts_.cache->n_sinks(g) || i >= parts_.cache->seen_from(g, end))
        groups |= std::uint32_t{1} << g;
    }
  }
}

// To the next block of which the tier does not have all that moves.
void TierDriver::skip_known(Prefix& prefix) {
  const auto known = [&](std::uint32_t i) {
    return (prefix.blocks[i].groups & ~prefix.places[i].groups) == 0;
  };
  while (prefix.next < prefix.end && known(prefix.next)) ++prefix.next;
  while (prefix.paused && prefix.next < prefix.end && known(prefix.end - 1)) --prefix.end;
}

// How long a prefix is there, where the cache has n_cached blocks of it and the tier, behind these, all that the
// position behind it sees.
std::uint32_t TierDriver::n_usable(std::span<const TierPlace> places,
                                   std::uint32_t n_cached) const {
  const kvcache::KvCache& cache = *parts_.cache;
  const std::size_t n_groups = parts_.cache->n_groups();
  const auto has = [&](std::uint32_t i, std::size_t g) {
    return (places[i].groups >> g & 1U) != 0;
  };
  std::vector<std::uint32_t> sinks_end(n_groups, n_cached);  // the sink blocks up to it are there
  std::vector<std::uint32_t> from(n_groups, n_cached);       // the blocks from it to i are there
  std::uint32_t n = n_cached;
  for (std::uint32_t i = n_cached; i < places.size(); ++i) {
    bool usable = true;
    for (std::size_t g = 0; g < n_groups; ++g) {
      if (has(i, g) && sinks_end[g] == i) ++sinks_end[g];
      if (!has(i, g)) from[g] = i + 1;
      usable &= from[g] <= std::max(n_cached, cache.seen_from(g, i + 1)) &&
                sinks_end[g] >= std::min(cache.n_sinks(g), i + 1);
    }
    if (usable) n = i + 1;
  }
  return n;
}

void TierDriver::note(const TierBlock& block,
                      std::uint64_t hash,
                      std::uint64_t parent,
                      const TierPlace& at) {
  parts_.cache->note_tier({.hash = hash,
                           .parent = parent,
                           .tokens = block.tokens,
                           .priority = block.priority,
                           .groups = at.groups,
                           .level = at.level});
  if (at.groups == 0) {
    hashes_.erase(block.key);
  } else {
    hashes_[block.key] = hash;
  }
}

// Of all blocks of the prefix.
void TierDriver::note_all(const Prefix& prefix) {
  for (std::size_t i = 0; i < prefix.blocks.size() && !prefix.hashes.empty(); ++i) {
    if (prefix.places[i].groups != 0)
      note(prefix.blocks[i], prefix.hashes[i + 1], prefix.hashes[i], prefix.places[i]);
  }
}

// Blocks of the piece from `first` on come in their order, then the others.
void TierDriver::note_moved(const Prefix& prefix, std::uint32_t first, const TierDone& done) {
  if (prefix.hashes.empty()) return;
  std::set<BlockKey> noted;
  const auto n_all = static_cast<std::uint32_t>(prefix.blocks.size());
  for (std::uint32_t i = first; i < std::min(first + piece_blocks_, n_all); ++i) {
    const TierBlock& block = prefix.blocks[i];
    const auto moved =
        std::ranges::find(done.moved, block.key, &std::pair<BlockKey, TierPlace>::first);
    if (moved == done.moved.end()) continue;
    note(block, prefix.hashes[i + 1], prefix.hashes[i], moved->second);
    noted.insert(block.key);
  }
  for (const auto& [key, place] : done.moved) {
    const auto known = hashes_.find(key);
    if (known != hashes_.end() && !noted.contains(key)) note({.key = key}, known->second, 0, place);
  }
}

// Of a sequence that gives its blocks back: those published up to the first that is below the least priority.
std::uint32_t TierDriver::n_wanted(const Sequence& s) const {
  const std::uint32_t block = parts_.cache->block_tokens();
  const auto n =
      std::min(s.lease.n_published(), static_cast<std::uint32_t>(s.tokens.size()) / block);
  const kvcache::RetentionRule rule = s.retention_rule();
  std::uint32_t i = 0;
  while (i < n && priority_of(rule, i * block) >= parts_.priority_min) ++i;
  return i;
}

// Its first n_blocks, with what the tier has of them.
TierDriver::Prefix TierDriver::offload_of(const Sequence& s, std::uint32_t n_blocks) const {
  const std::uint32_t block = parts_.cache->block_tokens();
  const auto tokens = std::span(s.tokens).first(std::size_t{n_blocks} * block);
  const std::vector<BlockKey> keys = parts_.tier->keys(s.identity, tokens, block);
  parts_.tier->touch(keys);
  Prefix out{.blocks = blocks_of(keys, tokens, block),
             .places = parts_.tier->places(keys),
             .sequence = s.id};
  const kvcache::RetentionRule rule = s.retention_rule();
  for (std::uint32_t i = 0; i < n_blocks; ++i)
    out.blocks[i].priority = priority_of(rule, i * block);
  if (parts_.cache->makes_events()) out.hashes = parts_.cache->event_hashes(s.identity, tokens);
  set_groups(out, n_blocks);
  return out;
}

void TierDriver::offload(const Sequence& s) {
  if (!works_) return;
  const std::uint32_t n = n_wanted(s);
  if (n == 0) return;
  Prefix prefix = offload_of(s, n);
  note_all(prefix);
  begin(offloads_, s, std::move(prefix), TimePoint::max());
}

void TierDriver::offload_paused(const Sequence& s, const StepCost& cost, TimePoint now) {
  if (!works_) return;
  const std::uint32_t n = std::min(n_wanted(s), n_paused_max());
  if (n == 0 || std::ranges::find(paused_, s.id, &Prefix::sequence) != paused_.end()) return;
  const double of_tier = n * (export_pace_.seconds + load_pace_.seconds + import_pace_.seconds);
  if (of_tier >= cost.prompt_seconds(n * parts_.cache->block_tokens())) return;
  Prefix prefix = offload_of(s, n);
  prefix.paused = true;
  note_all(prefix);
  begin(paused_, s, std::move(prefix), now + kLoanMax);
}

void TierDriver::begin(std::deque<Prefix>& offloads,
                       const Sequence& s,
                       Prefix prefix,
                       TimePoint until) {
  const auto n = static_cast<std::uint32_t>(prefix.blocks.size());
  skip_known(prefix);
  if (prefix.next == prefix.end) return;
  // Those of a paused one were its own, and come back bit by bit.
  const bool has_room = prefix.paused || has_room_for(n);
  if (!parts_.tier->takes() || offloads.size() >= kOffloadsMax || !has_room) {
    n_skipped_ += prefix.end - prefix.next;
    return;
  }
  const auto tokens = std::span(s.tokens).first(std::size_t{n} * parts_.cache->block_tokens());
  const HeldPrefix held = parts_.transfers->hold(s.identity, tokens, until);
  if (held.id == 0) return;
  prefix.hold = held.id;
  prefix.next = 0;
  set_groups(prefix, held.n_blocks);  // a window group may have lost what is seen at the end
  offloads.push_back(std::move(prefix));
  export_next();
}

// Those of which everything is on its way that should be. Of a paused one what is known is given back.
void TierDriver::end_done(std::deque<Prefix>& offloads) {
  while (!offloads.empty()) {
    Prefix& prefix = offloads.front();
    skip_known(prefix);
    if (prefix.next < prefix.end) {
      if (prefix.paused) parts_.transfers->shrink(prefix.hold, prefix.end);
      return;
    }
    parts_.transfers->close(prefix.hold);
    std::vector<BlockKey> keys;  // the beginning shall go last
    keys.reserve(prefix.blocks.size());
    for (const TierBlock& block : prefix.blocks) keys.push_back(block.key);
    parts_.tier->touch(keys);
    offloads.pop_front();
  }
}

// Unless a piece is on its way, the next one goes.
void TierDriver::export_next() {
  if (exporting_ != 0) return;
  end_done(paused_);
  end_done(offloads_);
  if (paused_.empty() && offloads_.empty()) return;
  exports_ = paused_.empty() ? &offloads_ : &paused_;
  const Prefix& prefix = exports_->front();
  const Piece piece = piece_of(prefix);
  exporting_ = parts_.transfers->next_attachment();
  exported_from_ = piece.first;
  parts_.transfers->move(
      {.hold = prefix.hold,
       .first = piece.first,
       .n = piece.n,
       .attachment = exporting_,
       .done = [this, piece](const Status& status) { exported(piece, status); }});
}

// Of a paused sequence the blocks of the piece are given back.
void TierDriver::exported(Piece piece, const Status& status) {
  Prefix& prefix = exports_->front();
  if (!status.ok()) {  // nothing was made; what follows would have a hole before it
    n_skipped_ += prefix.end - prefix.next;
    prefix.next = prefix.end;
    exporting_ = 0;
    if (works_) export_next();
    return;
  }
  export_pace_.note(parts_.transfers->step_took(), piece.n);
  parts_.tier->store({.runner = parts_.runner,
                      .attachment = exporting_,
                      .blocks = blocks_in(prefix, piece),
                      .done = [post = parts_.post, attachment = exporting_](const TierDone& done) {
                        post([attachment, done](EngineCore& core) {
                          if (core.tier() != nullptr) core.tier()->stored(attachment, done);
                        });
                      }});
  if (prefix.paused) {
    prefix.end = piece.first;
    parts_.transfers->shrink(prefix.hold, prefix.end);
  } else {
    prefix.next += piece.n;
  }
}

void TierDriver::stored(std::uint64_t attachment, const TierDone& done) {
  if (attachment != exporting_) return;  // of another runner's time
  const Prefix& prefix = exports_->front();
  if (prefix.paused) n_paused_offloaded_ += done.n_blocks;
  note_moved(prefix, exported_from_, done);
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
  std::vector<TierPlace> places = parts_.tier->places(keys);
  const std::uint32_t n = n_usable(places, n_cached);
  if (n == n_cached) return false;
  parts_.tier->touch(std::span(keys).first(n));
  const auto used = tokens.first(std::size_t{n} * block);
  Prefix prefix{.resumes = s.state == SequenceState::kPaused,
                .blocks = blocks_of(std::span(keys).first(n), used, block),
                .places = std::move(places),
                .identity = s.identity,
                .tokens = {used.begin(), used.end()},
                .sequence = s.id};
  for (std::uint32_t i = 0; i < n; ++i) prefix.blocks[i].priority = prefix.places[i].priority;
  set_groups(prefix, n);
  if (parts_.cache->makes_events()) prefix.hashes = parts_.cache->event_hashes(s.identity, used);
  note_all(prefix);
  onboards_.push_back(std::move(prefix));
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
  Prefix& prefix = onboards_.front();
  while (prefix.next < prefix.end && prefix.blocks[prefix.next].groups == 0) ++prefix.next;
  if (prefix.next >= prefix.end) return end_onboarding();
  importing_ = parts_.transfers->next_attachment();
  parts_.tier->load({.runner = parts_.runner,
                     .attachment = importing_,
                     .blocks = blocks_in(prefix, piece_of(prefix)),
                     .done = [post = parts_.post, attachment = importing_](const TierDone& done) {
                       post([attachment, done](EngineCore& core) {
                         if (core.tier() != nullptr) core.tier()->loaded(attachment, done);
                       });
                     }});
}

void TierDriver::loaded(std::uint64_t attachment, const TierDone& done) {
  if (attachment != importing_) return;
  const Prefix& prefix = onboards_.front();
  note_moved(prefix, prefix.next, done);
  load_pace_.note(done.took, done.n_blocks);
  if (done.n_blocks == 0) {
    importing_ = 0;
    return end_onboarding();
  }
  std::uint32_t n = 0;  // of the piece, up to the last block that is attached
  for (std::uint32_t left = done.n_blocks; left > 0; ++n)
    left -= prefix.blocks[prefix.next + n].groups != 0 ? 1 : 0;
  parts_.transfers->move({.hold = prefix.hold,
                          .comes_in = true,
                          .first = prefix.next,
                          .n = n,
                          .attachment = attachment,
                          .done = [this, n, n_loaded = done.n_blocks](const Status& status) {
                            imported(n, n_loaded, status);
                          }});
}

void TierDriver::imported(std::uint32_t n, std::uint32_t n_loaded, const Status& status) {
  if (!status.ok()) static_cast<void>(parts_.runner->detach(importing_));
  importing_ = 0;
  if (!status.ok()) return end_onboarding();
  Prefix& prefix = onboards_.front();
  const bool whole = n_loaded == blocks_in(prefix, piece_of(prefix)).size();
  prefix.next += n;
  import_pace_.note(parts_.transfers->step_took(), n_loaded);
  n_onboarded_ += n_loaded;
  n_paused_onboarded_ += prefix.resumes ? n_loaded : 0;
  if (!whole) return end_onboarding();  // one of them was not right
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
