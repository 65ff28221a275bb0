#pragma once
// BlockTransfers: KV blocks of cached prefixes on their way out of the runner and into it, as attachments
// (kv_layout.h): for saved sessions, hand-overs and the tier of files.
//
//     hold       a lease on the whole blocks of a prefix: those that are cached (out), or these and new ones (in)
//     move       a piece of them to or from an attachment, in a plan without rows: if it fails, no request does
//     publish    what came in is there: requests find it
//     close      the lease ends
//
// What goes out may also be lent to somebody who has the runner copy it beside its steps (StepRunner::export_blocks()).
//
// A hold may have a deadline: for whom nobody vouches, such as a hand-over between two engines. It then ends by itself,
// and what was to move does not.
//
// A block that is held is neither evicted nor written. Attachments are bounded by slots: whoever wants to move a piece
// takes one before the attachment exists and gives it back when the attachment is gone, so that the runner always has
// room for it.
//
// Thread rule: one engine thread; AttachmentSlots from any thread.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/kv_layout.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "base/mutex.h"
#include "kvcache/kv_cache.h"

namespace coxswain::batch {

// How many attachments of a piece may exist at once.
class AttachmentSlots {
 public:
  explicit AttachmentSlots(std::uint32_t n) : n_free_(n) {}

  bool try_take();
  void take();  // waits for one
  void give();

 private:
  base::Mutex mu_;
  base::CondVar given_;
  std::uint32_t n_free_ GUARDED_BY(mu_);
};

// KV blocks that leave such a runner, or come in, as one attachment; 0: it moves none.
std::uint32_t piece_blocks_max(const RunnerInfo& info);
// Of these, as many as pass between two steps of answers without being noticed: about a MiB.
std::uint32_t handover_piece_blocks(const RunnerInfo& info);
// So many of these a slot has room for: they leave the runner between two chunks of a prompt, where there is one turn.
std::uint32_t handover_attachments_max(const RunnerInfo& info);

struct HeldPrefix {
  std::uint64_t id = 0;  // 0: nothing is held
  std::uint32_t n_blocks = 0;
  std::uint32_t n_cached = 0;  // of these, at the front, that the cache has
  // Per KV group: the first block behind those that have left the window; before these are blocks of sink tokens alone.
  std::vector<std::uint32_t> first_blocks = {};
};

// Blocks [first, first + n) of a held prefix.
struct BlockPiece {
  std::uint64_t hold = 0;
  bool comes_in = false;
  std::uint32_t first = 0;
  std::uint32_t n = 0;
  LayerRange layers = {};  // of the blocks
  std::uint64_t attachment = 0;
  // Later plans may count on it: `done` is called when its plan has been submitted. If that then fails, the runner is
  // lost. Only of what comes in.
  bool done_when_submitted = false;
  // Once, on the engine thread: the attachment was made, or was imported, or why not.
  std::function<void(const Status&)> done = [](const Status&) {};
};

// A piece for an export beside the steps.
struct LentBlocks {
  BlockTransfer transfer = {};
  // While it lives nobody writes these blocks, even where their hold has ended. From any thread.
  std::shared_ptr<const void> loan = {};
};

class BlockTransfers {
 public:
  // A piece takes at most this part of what the runner has room for: two are for copies (slots()), one for each way of
  // the tier of files.
  static constexpr std::uint32_t kParts = 4;
  static constexpr std::uint32_t kSlots = 2;
  static constexpr std::uint32_t kPieceBlocksMax = 256;
  // Of a runner's attachment_bytes_max for each attachment, beside its bytes.
  static constexpr std::uint64_t kSlotOverheadBytes = 4096;

  // The ids of attachments and holds begin there. Those of holds are of one engine, through all of its runners.
  BlockTransfers(kvcache::KvCache& cache,
                 const RunnerInfo& info,
                 std::uint64_t first_attachment,
                 std::uint64_t first_hold = 1);
  ~BlockTransfers() { fail({Code::kUnavailable, "the engine ends"}); }
  BlockTransfers(const BlockTransfers&) = delete;
  BlockTransfers& operator=(const BlockTransfers&) = delete;

  // Blocks of a piece; 0: this runner moves no blocks in or out.
  std::uint32_t piece_blocks_max() const { return piece_blocks_max_; }
  const std::shared_ptr<AttachmentSlots>& slots() const { return slots_; }
  std::uint64_t next_attachment() { return next_attachment_++; }
  std::uint64_t next_hold() const { return next_hold_; }

  // What the cache has of `tokens` in whole blocks.
  HeldPrefix hold(std::string_view identity,
                  std::span<const TokenId> tokens,
                  TimePoint until = TimePoint::max());
  // The first n_blocks of `tokens`, what the cache has of them in whole pieces of piece_blocks and blocks of its own
  // for the rest. REQUIRES: as many whole blocks in `tokens`. Errors: kResourceExhausted.
  Result<HeldPrefix> hold_for_import(std::string_view identity,
                                     std::span<const TokenId> tokens,
                                     std::uint32_t n_blocks,
                                     std::uint32_t piece_blocks,
                                     TimePoint until = TimePoint::max());
  // Blocks of its own for the first n_blocks of `tokens`, whatever the cache has, every one of them in every group: for
  // rows that write all of them. REQUIRES and errors: as above.
  Result<HeldPrefix> hold_fresh(std::string_view identity,
                                std::span<const TokenId> tokens,
                                std::uint32_t n_blocks,
                                TimePoint until = TimePoint::max());
  // The tables of what is held; `step` names them.
  std::vector<BlockTableChange> use(std::uint64_t hold, std::uint64_t step);
  // Called when the hold ends; not with fail().
  void on_end(std::uint64_t hold, std::function<void()> ended);
  // REQUIRES: inside of what is held; whoever brings an attachment has attached it.
  void move(BlockPiece piece);
  // REQUIRES: inside of what is held, which holds(). It goes out.
  LentBlocks lend(const BlockPiece& piece);
  // The first so many blocks of what is held are there now, for others too.
  void publish(std::uint64_t hold, std::uint32_t n_blocks);
  // Pieces that wait are done with kCancelled; one that a step moves is moved. Unknown ids are ignored, here and above.
  void close(std::uint64_t hold, std::uint32_t publish = 0);
  bool holds(std::uint64_t hold) const { return holds_.contains(hold); }
  // Of what is held the first n_blocks stay held. REQUIRES: no piece of the others is left.
  void shrink(std::uint64_t hold, std::uint32_t n_blocks);
  // Blocks of a group that are held, and how many of these come back when the hold ends. 0 of an unknown one.
  std::uint32_t n_held(std::uint64_t hold, std::size_t group) const;
  std::uint32_t reclaimable(std::uint64_t hold, std::size_t group) const;
  // Holds whose deadline has come end.
  void expire(TimePoint now);
  TimePoint next_deadline() const;  // TimePoint::max(): none

  bool empty() const { return holds_.empty() && outlasted_.empty(); }
  bool has_work() const { return !waiting_.empty(); }
  // The next piece becomes part of the plan, with those behind it that come in, too, or go out of the same hold.
  // REQUIRES: has_work().
  void fill(StepPlan& plan);
  // The runner has taken that plan. Whether later ones may count on it.
  bool submitted();
  // The result of the step is there; it took so long beside those before it.
  void retired(std::uint64_t step, const Status& status, Clock::duration took = {});
  // Of the step whose piece is just done.
  Clock::duration step_took() const { return step_took_; }
  // Nothing moves any more: pieces are done with `why`, holds end.
  void fail(const Status& why);

 private:
  using Loan = std::shared_ptr<std::atomic<bool>>;  // true: it has come back
  struct Hold {
    std::vector<TokenId> tokens = {};  // of the held blocks, where some come in
    kvcache::KvLease lease;
    TimePoint until = TimePoint::max();
    std::function<void()> ended = {};  // null: nobody asks
    std::vector<Loan> loans = {};
  };
  // A hold that has ended while its blocks were lent.
  struct Outlasted {
    kvcache::KvLease lease;
    std::vector<Loan> loans;
  };
  struct InFlight {
    std::uint64_t step = 0;
    BlockPiece piece;
  };
  HeldPrefix keep(Hold hold, std::uint32_t n_cached);
  void fill_one(StepPlan& plan);
  BlockTransfer transfer_of(const Hold& hold, const BlockPiece& piece) const;

  kvcache::KvCache& cache_;
  const KvLayout layout_;
  std::uint32_t piece_blocks_max_ = 0;
  std::shared_ptr<AttachmentSlots> slots_;
  std::map<std::uint64_t, Hold> holds_;
  std::vector<Outlasted> outlasted_;
  TimePoint looked_at_{};  // for loans that have come back
  std::deque<BlockPiece> waiting_;
  std::deque<InFlight> in_flight_;
  Clock::duration step_took_{};
  std::uint64_t next_hold_;
  std::uint64_t next_attachment_;
};

}  // namespace coxswain::batch
