#include "batch/block_transfers.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace coxswain::batch {
namespace {

// How soon it is looked again for loans that have come back, where a hold has ended.
constexpr std::chrono::milliseconds kLoanPoll{1};

// Larger ones are gaps in what the destination generates (docs/adr/0074-a-prompt-goes-apart-where-less-is-lost.md).
constexpr std::uint64_t kHandoverPieceBytes = std::uint64_t{1} << 20;

template <typename Loans>
bool any_lent(const Loans& loans) {
  return std::ranges::any_of(loans, [](const auto& back) { return !*back; });
}

// As many blocks as a slot has room for, in every group.
std::uint32_t blocks_of_a_piece(const RunnerInfo& info, const KvLayout& layout) {
  const Capabilities& can = info.capabilities;
  const bool told = std::ranges::all_of(layout.groups, [](const KvLayout::Group& group) {
    return group.n_kv_heads > 0 && group.kind != KvGroup::Kind::kState;
  });
  if (!can.attachments || !told || layout.groups.empty()) return 0;
  const std::vector<std::uint32_t> none(layout.groups.size(), 0);
  const std::vector<std::uint32_t> one(layout.groups.size(), 1);
  constexpr std::uint64_t kBeside = BlockTransfers::kSlotOverheadBytes;
  const std::uint64_t head = blocks_attachment_bytes(layout, none) + kBeside;
  const std::uint64_t block = blocks_attachment_bytes(layout, one) - head + kBeside;
  const std::uint64_t slot = can.attachment_bytes_max / BlockTransfers::kParts;
  if (slot < head + block) return 0;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>((slot - head) / block, BlockTransfers::kPieceBlocksMax));
}

}  // namespace

std::uint32_t piece_blocks_max(const RunnerInfo& info) {
  return blocks_of_a_piece(info, kv_layout_of(info));
}

std::uint32_t handover_piece_blocks(const RunnerInfo& info) {
  const KvLayout layout = kv_layout_of(info);
  const std::uint32_t most = blocks_of_a_piece(info, layout);
  if (most == 0) return 0;
  const std::vector<std::uint32_t> one(layout.groups.size(), 1);
  const std::uint64_t wanted = kHandoverPieceBytes / blocks_attachment_bytes(layout, one);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, 1, most));
}

std::uint32_t handover_attachments_max(const RunnerInfo& info) {
  const std::uint32_t n_blocks = handover_piece_blocks(info);
  if (n_blocks == 0) return 1;
  const KvLayout layout = kv_layout_of(info);
  const std::vector<std::uint32_t> piece(layout.groups.size(), n_blocks);
  const std::uint64_t slot = info.capabilities.attachment_bytes_max / BlockTransfers::kParts;
  const std::uint64_t each =
      blocks_attachment_bytes(layout, piece) + BlockTransfers::kSlotOverheadBytes;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(slot / each, 1));
}

bool AttachmentSlots::try_take() {
  base::MutexLock lock(mu_);
  if (n_free_ == 0) return false;
  --n_free_;
  return true;
}

void AttachmentSlots::take() {
  base::MutexLock lock(mu_);
  given_.wait(lock, [&]() REQUIRES(mu_) { return n_free_ > 0; });
  --n_free_;
}

void AttachmentSlots::give() {
  {
    base::MutexLock lock(mu_);
    ++n_free_;
  }
  given_.notify_one();
}

BlockTransfers::BlockTransfers(kvcache::KvCache& cache,
                               const RunnerInfo& info,
                               std::uint64_t first_attachment,
                               std::uint64_t first_hold)
    : cache_(cache),
      layout_(kv_layout_of(info)),
      piece_blocks_max_(cache.prefix_caching() ? blocks_of_a_piece(info, layout_) : 0),
      slots_(std::make_shared<AttachmentSlots>(kSlots)),
      next_hold_(first_hold),
      next_attachment_(std::max<std::uint64_t>(first_attachment, 1)) {}

HeldPrefix BlockTransfers::keep(Hold hold, std::uint32_t n_cached) {
  HeldPrefix out{.id = next_hold_++, .n_blocks = hold.lease.n_blocks(), .n_cached = n_cached};
  for (std::size_t g = 0; g < cache_.n_groups(); ++g)
    out.first_blocks.push_back(hold.lease.released_end(g));
  holds_.emplace(out.id, std::move(hold));
  return out;
}

HeldPrefix BlockTransfers::hold(std::string_view identity,
                                std::span<const TokenId> tokens,
                                TimePoint until) {
  if (piece_blocks_max_ == 0) return {};
  // A prefix leaves a token to compute: one behind the last whole block.
  std::vector<TokenId> all(tokens.begin(), tokens.end());
  all.push_back(0);
  Hold hold{.lease = cache_.open(identity, all, true, {}, false), .until = until};
  const std::uint32_t n = hold.lease.n_blocks();
  return n == 0 ? HeldPrefix{} : keep(std::move(hold), n);
}

Result<HeldPrefix> BlockTransfers::hold_for_import(std::string_view identity,
                                                   std::span<const TokenId> tokens,
                                                   std::uint32_t n_blocks,
                                                   std::uint32_t piece_blocks,
                                                   TimePoint until) {
  if (piece_blocks_max_ == 0)
    return Status(Code::kUnimplemented, "the runner takes no KV blocks as attachments");
  const std::size_t n_tokens = std::size_t{n_blocks} * cache_.block_tokens();
  assert(n_tokens <= tokens.size() && piece_blocks > 0);
  std::vector<TokenId> all(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n_tokens));
  const auto open = [&](std::uint32_t n_found_max) {
    std::vector<TokenId> front(all.begin(),
                               all.begin() + std::ptrdiff_t{n_found_max} * cache_.block_tokens());
    front.push_back(0);
    return cache_.open(identity, front, true, {}, false);
  };
  Hold hold{.lease = open(n_blocks), .until = until};
  std::uint32_t n_cached = hold.lease.n_blocks();
  if (n_cached < n_blocks && n_cached % piece_blocks != 0) {
    hold.lease = open(n_cached - n_cached % piece_blocks);
    n_cached = hold.lease.n_blocks();
    if (n_cached % piece_blocks != 0) {  // a window group has less there
      hold.lease = open(0);
      n_cached = 0;
    }
  }
  COXSWAIN_RETURN_IF_ERROR(cache_.extend(hold.lease, n_blocks));
  hold.tokens = std::move(all);
  return keep(std::move(hold), n_cached);
}

Result<HeldPrefix> BlockTransfers::hold_fresh(std::string_view identity,
                                              std::span<const TokenId> tokens,
                                              std::uint32_t n_blocks,
                                              TimePoint until) {
  if (piece_blocks_max_ == 0)
    return Status(Code::kUnimplemented, "the runner takes no KV blocks as attachments");
  const std::size_t n_tokens = std::size_t{n_blocks} * cache_.block_tokens();
  assert(n_tokens <= tokens.size());
  std::vector<TokenId> all(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n_tokens));
  Hold hold{.lease = cache_.open(identity, all, false), .until = until};
  COXSWAIN_RETURN_IF_ERROR(cache_.grow(hold.lease, n_blocks));
  hold.tokens = std::move(all);
  return keep(std::move(hold), 0);
}

std::vector<BlockTableChange> BlockTransfers::use(std::uint64_t hold, std::uint64_t step) {
  kvcache::KvLease& lease = holds_.at(hold).lease;
  lease.mark_used(step);
  std::vector<BlockTableChange> out;
  for (std::size_t g = 0; g < cache_.n_groups(); ++g) {
    const auto table = lease.table(g);
    out.push_back(
        {.kv_group = static_cast<std::uint32_t>(g), .blocks = {table.begin(), table.end()}});
  }
  return out;
}

void BlockTransfers::on_end(std::uint64_t hold, std::function<void()> ended) {
  const auto found = holds_.find(hold);
  if (found != holds_.end()) found->second.ended = std::move(ended);
}

void BlockTransfers::move(BlockPiece piece) {
  if (!holds_.contains(piece.hold))
    return piece.done({Code::kUnavailable, "the runner was lost or the engine ends"});
  waiting_.push_back(std::move(piece));
}

LentBlocks BlockTransfers::lend(const BlockPiece& piece) {
  Hold& hold = holds_.at(piece.hold);
  const auto back = hold.loans.emplace_back(std::make_shared<std::atomic<bool>>(false));
  return {.transfer = transfer_of(hold, piece),
          .loan = std::shared_ptr<const void>(nullptr, [back](const void*) { *back = true; })};
}

void BlockTransfers::publish(std::uint64_t hold, std::uint32_t n_blocks) {
  const auto found = holds_.find(hold);
  if (found == holds_.end() || n_blocks == 0) return;
  const std::size_t n_tokens = std::size_t{n_blocks} * cache_.block_tokens();
  cache_.publish(found->second.lease, std::span(found->second.tokens).first(n_tokens));
}

// The blocks of a piece that a step moves retire with the step.
void BlockTransfers::close(std::uint64_t hold, std::uint32_t publish) {
  this->publish(hold, publish);
  const auto found = holds_.find(hold);
  if (found == holds_.end()) return;
  const std::function<void()> ended = std::move(found->second.ended);
  if (any_lent(found->second.loans))
    outlasted_.push_back({std::move(found->second.lease), std::move(found->second.loans)});
  holds_.erase(found);
  if (ended) ended();
  const auto leaves = std::stable_partition(
      waiting_.begin(), waiting_.end(), [&](const BlockPiece& p) { return p.hold != hold; });
  std::vector<BlockPiece> dropped;
  std::move(leaves, waiting_.end(), std::back_inserter(dropped));
  waiting_.erase(leaves, waiting_.end());
  for (const BlockPiece& piece : dropped) piece.done({Code::kCancelled, "the hold has ended"});
}

TimePoint BlockTransfers::next_deadline() const {
  TimePoint out = TimePoint::max();
  for (const auto& [id, hold] : holds_) out = std::min(out, hold.until);
  return outlasted_.empty() ? out : std::min(out, looked_at_ + kLoanPoll);
}

void BlockTransfers::expire(TimePoint now) {
  std::vector<std::uint64_t> late;
  for (const auto& [id, hold] : holds_) {
    if (now >= hold.until) late.push_back(id);
  }
  for (const std::uint64_t id : late) close(id);
  looked_at_ = now;
  std::erase_if(outlasted_, [](Outlasted& each) { return !any_lent(each.loans); });
}

// What is counted on loses the runner if it fails: nothing that is not goes with it.
void BlockTransfers::fill(StepPlan& plan) {
  const BlockPiece first{.hold = waiting_.front().hold,
                         .comes_in = waiting_.front().comes_in,
                         .done_when_submitted = waiting_.front().done_when_submitted};
  const auto goes_along = [&](const BlockPiece& piece) {
    if (piece.comes_in != first.comes_in) return false;
    return first.comes_in ? !first.done_when_submitted && !piece.done_when_submitted
                          : piece.hold == first.hold;
  };
  do {
    fill_one(plan);
  } while (!waiting_.empty() && goes_along(waiting_.front()));
}

void BlockTransfers::fill_one(StepPlan& plan) {
  BlockPiece piece = std::move(waiting_.front());
  waiting_.pop_front();
  Hold& hold = holds_.at(piece.hold);
  (piece.comes_in ? plan.imports : plan.exports).push_back(transfer_of(hold, piece));
  hold.lease.mark_used(plan.step);
  in_flight_.push_back({.step = plan.step, .piece = std::move(piece)});
}

BlockTransfer BlockTransfers::transfer_of(const Hold& hold, const BlockPiece& piece) const {
  BlockTransfer out{.attachment = piece.attachment, .layers = piece.layers};
  for (std::size_t g = 0; g < cache_.n_groups(); ++g) {
    auto& blocks = out.blocks.emplace_back();
    std::ranges::copy_if(hold.lease.table(g).subspan(piece.first, piece.n),
                         std::back_inserter(blocks),
                         [](BlockId id) { return id != kReleasedBlock; });
  }
  return out;
}

void BlockTransfers::shrink(std::uint64_t hold, std::uint32_t n_blocks) {
  const auto found = holds_.find(hold);
  if (found != holds_.end()) cache_.shrink(found->second.lease, n_blocks);
}

std::uint32_t BlockTransfers::n_held(std::uint64_t hold, std::size_t group) const {
  const auto found = holds_.find(hold);
  if (found == holds_.end()) return 0;
  const kvcache::KvLease& lease = found->second.lease;
  return lease.n_held(group, lease.n_blocks());
}

std::uint32_t BlockTransfers::reclaimable(std::uint64_t hold, std::size_t group) const {
  const auto found = holds_.find(hold);
  return found == holds_.end() ? 0 : cache_.reclaimable(found->second.lease, group);
}

bool BlockTransfers::submitted() {
  BlockPiece& piece = in_flight_.back().piece;
  if (!piece.done_when_submitted) return false;
  std::exchange(piece.done, [](const Status&) {})({});
  return true;
}

void BlockTransfers::retired(std::uint64_t step, const Status& status, Clock::duration took) {
  step_took_ = took;
  while (!in_flight_.empty() && in_flight_.front().step <= step) {
    const BlockPiece piece = std::move(in_flight_.front().piece);
    in_flight_.pop_front();
    piece.done(status);
  }
}

void BlockTransfers::fail(const Status& why) {
  piece_blocks_max_ = 0;
  const auto in_flight = std::exchange(in_flight_, {});
  const auto waiting = std::exchange(waiting_, {});
  holds_.clear();
  outlasted_.clear();
  for (const InFlight& each : in_flight) each.piece.done(why);
  for (const BlockPiece& piece : waiting) piece.done(why);
}

}  // namespace coxswain::batch
