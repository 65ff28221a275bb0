#pragma once
// TierDriver: what an engine does with a BlockTier: whole blocks of sequences that end or are paused go there, and what
// it has of a context behind the cache's hit comes back before the sequence is admitted.
//
//   offload   hold the prefix -> export a piece -> the tier takes and keeps it -> next piece
//   onboard   hold as many new blocks -> the tier attaches a piece -> import it -> next piece -> publish
//
// The blocks of a paused sequence are wanted at once. They go before those of sequences that have ended, from the end
// on, where the cache evicts first, and each piece is given back as soon as it is exported: who wants blocks waits for
// one piece (on_loan), and for kLoanMax at the most. It is done only where the tier is expected to take less time than
// to compute them again, by what pieces and steps have taken, and of half of the blocks at most that the tier can hold.
//
// Of a KV group with a window the blocks move that the position behind the prefix sees. Where another sequence has left
// a block in other groups the tier has both. A prefix may come back up to any block where each group has what is seen
// there, in the cache or in the tier.
//
// One piece at a time each way, the step loop waits for neither. What finds no room on its way (kOffloadsMax sequences
// that end, as many that are paused; half of the blocks of a group for those that end) is not kept, nor are a block
// below the least priority and those behind it; what cannot be onboarded is computed.
//
// Thread rule: one engine thread.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/step_runner.h>

#include "batch/block_tier.h"
#include "batch/block_transfers.h"
#include "batch/engine.h"
#include "batch/sequence.h"
#include "batch/step_cost.h"
#include "kvcache/kv_cache.h"

namespace coxswain::batch {

class TierDriver {
 public:
  static constexpr std::uint32_t kPieceBlocks = 16;
  static constexpr std::size_t kOffloadsMax = 8;
  static constexpr std::chrono::milliseconds kLoanMax{250};

  struct Parts {
    std::shared_ptr<BlockTier> tier;
    std::shared_ptr<StepRunner> runner;
    kvcache::KvCache* cache = nullptr;
    BlockTransfers* transfers = nullptr;
    bool serves = false;                              // BlockTier::serves() of the runner
    std::uint32_t priority_min = 0;                   // EngineOptions::tier_priority_min
    std::function<void(EngineWork)> post;             // to the engine thread, from any
    std::function<void(SequenceId)> may_be_admitted;  // onboarding is over
  };

  explicit TierDriver(Parts parts);
  ~TierDriver();
  TierDriver(const TierDriver&) = delete;
  TierDriver& operator=(const TierDriver&) = delete;

  // The sequence ends: its whole blocks that are published are kept. REQUIRES: its lease is still there.
  void offload(const Sequence& s);
  // The same of one that is paused, if `cost` says that it pays.
  void offload_paused(const Sequence& s, const StepCost& cost, TimePoint now);
  // Once for a sequence that waits. True: it waits further, until may_be_admitted().
  bool onboard(const Sequence& s);

  // Blocks of paused sequences that are on their way, and then come back.
  bool has_loans() const { return !paused_.empty(); }
  std::uint32_t on_loan(std::size_t group) const;

  // Whether a sequence waits for blocks.
  bool is_onboarding() const { return !onboards_.empty(); }
  bool empty() const { return offloads_.empty() && paused_.empty() && onboards_.empty(); }
  KvTierStats stats() const;

 private:
  struct Prefix {
    std::uint64_t hold = 0;
    std::uint32_t next = 0;  // block
    std::uint32_t end = 0;
    bool paused = false;                 // an offload that begins at its end
    bool resumes = false;                // an onboarding of a sequence that was paused
    std::vector<TierBlock> blocks = {};  // [end], each of the groups that move
    std::vector<TierPlace> places = {};  // of them, when this began
    std::string identity = {};           // for an onboarding, as what follows
    std::vector<TokenId> tokens = {};
    SequenceId sequence{};
    std::vector<std::uint64_t> hashes = {};  // where events are made: KvCache::event_hashes()
  };
  struct Piece {  // blocks [first, first + n)
    std::uint32_t first = 0;
    std::uint32_t n = 0;
  };
  // Seconds per block, of those measured lately.
  struct Pace {
    double seconds = 0;  // 0: nothing was measured

    void note(std::chrono::nanoseconds took, std::size_t n_blocks);
  };
  std::uint32_t n_wanted(const Sequence& s) const;
  std::uint32_t n_usable(std::span<const TierPlace> places, std::uint32_t n_cached) const;
  std::uint32_t n_held(std::size_t group, std::uint32_t n_blocks) const;
  bool has_room_for(std::uint32_t n_blocks) const;
  std::uint32_t n_paused_max() const;
  Prefix offload_of(const Sequence& s, std::uint32_t n_blocks) const;
  void begin(std::deque<Prefix>& offloads, const Sequence& s, Prefix prefix, TimePoint until);
  void set_groups(Prefix& prefix, std::uint32_t end) const;
  static void skip_known(Prefix& prefix);
  Piece piece_of(const Prefix& prefix) const;
  static std::vector<TierBlock> blocks_in(const Prefix& prefix, Piece piece);
  void end_done(std::deque<Prefix>& offloads);
  void export_next();
  void exported(Piece piece, const Status& status);
  void stored(std::uint64_t attachment, const TierDone& done);
  void start_onboarding();
  void load_next();
  void loaded(std::uint64_t attachment, const TierDone& done);
  void imported(std::uint32_t n, std::uint32_t n_loaded, const Status& status);
  void end_onboarding();
  void note(const TierBlock& block, std::uint64_t hash, std::uint64_t parent, const TierPlace& at);
  void note_all(const Prefix& prefix);
  void note_moved(const Prefix& prefix, std::uint32_t first, const TierDone& done);

  const Parts parts_;
  bool works_ = false;
  std::uint32_t piece_blocks_ = 0;
  std::deque<Prefix> offloads_;            // of sequences that have ended
  std::deque<Prefix> paused_;              // of those that were paused: they go first
  std::deque<Prefix>* exports_ = nullptr;  // whose first one has a piece on its way
  std::uint32_t exported_from_ = 0;        // where that piece begins
  std::deque<Prefix> onboards_;            // the first one is on its way
  // Of the piece on its way; 0: none. The tier or the runner may have it.
  std::uint64_t exporting_ = 0;
  std::uint64_t importing_ = 0;
  // Where events are made: the hashes of blocks that the tier has and that were told of.
  std::map<BlockKey, std::uint64_t> hashes_;
  Pace export_pace_;  // steps that hand blocks out, and that take them in
  Pace import_pace_;
  Pace load_pace_;  // of the tier
  std::uint64_t n_onboarded_ = 0;
  std::uint64_t n_skipped_ = 0;
  std::uint64_t n_paused_offloaded_ = 0;
  std::uint64_t n_paused_onboarded_ = 0;
};

}  // namespace coxswain::batch
