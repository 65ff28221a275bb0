#pragma once
// One hand-over under way (handover.cc): what it is of, in which pieces, and how far each side is.
//
// Thread rule: said of each member.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "batch/block_transfers.h"
#include "batch/handover.h"
#include "batch/handover_protocol.h"
#include "batch/layer_steps.h"

namespace coxswain::batch::handover {

inline std::uint32_t n_block_pieces(const ParkedContext& parked) {
  if (parked.piece_blocks == 0) return 0;
  return base::ceil_div(parked.n_blocks, parked.piece_blocks * parked.attachments_max);
}

// The hidden states of a split prompt are the last piece: it is there once the other layers have been computed.
inline bool is_hidden(const ParkedContext& parked, std::uint32_t piece) {
  return parked.hidden != 0 && piece == n_block_pieces(parked);
}

inline std::uint32_t n_pieces_of(const ParkedContext& parked) {
  return n_block_pieces(parked) + (parked.hidden != 0 ? 1 : 0);
}

// What is marked belongs to the engine thread of that side, all else to the service's thread; `job` and what is const
// is read by all.
struct Transfer {
  Transfer(std::uint64_t number, HandoverJob of, HandoverService::Done when, TimePoint until)
      : id(number),
        job(std::move(of)),
        done(std::move(when)),
        deadline(until),
        mover(n_pieces_of(*job.parked)),
        giver(n_pieces_of(*job.parked), job.parked->until),
        taker(n_pieces_of(*job.parked), job.parked->until) {}

  // The attachments that a piece is; those of hidden states are none of these.
  std::vector<BlockPiece> attachments(std::uint64_t held,
                                      std::uint32_t index,
                                      std::uint64_t first) const {
    const ParkedContext& parked = *job.parked;
    const std::uint32_t of_a_piece = parked.piece_blocks * parked.attachments_max;
    const std::uint32_t begin = n_blocks_there + (index - n_pieces_there) * of_a_piece;
    const std::uint32_t end = std::min(begin + of_a_piece, parked.n_blocks);
    std::vector<BlockPiece> out;
    for (std::uint32_t at = begin; at < end; at += parked.piece_blocks)
      out.push_back({.hold = held,
                     .first = at,
                     .n = std::min(parked.piece_blocks, end - at),
                     .layers = {.begin = 0, .end = parked.layers},
                     .attachment = first++});
    return out;
  }

  const std::uint64_t id;
  const HandoverJob job;
  const HandoverService::Done done;
  const TimePoint began = Clock::now();

  TimePoint deadline;
  TimePoint passage_until{};  // while bytes pass
  Mover mover;
  std::shared_ptr<AttachmentSlots> to_slots;
  std::shared_ptr<StepRunner> to_runner;
  bool has_from_slot = false;
  bool has_to_slot = false;
  std::optional<Mover::Send> waits_for_slots;
  std::uint64_t first_attachment = 0;  // of the pieces, at the destination
  bool cancelled = false;
  Status why;  // it did not move
  std::uint32_t n_pieces = 0;
  std::uint64_t n_bytes = 0;

  Giver giver;             // source
  Taker taker;             // destination, as what follows
  std::uint64_t hold = 0;  // there
  // Not touched any more once it is prepared, and then read by all: what the destination had before, at the front.
  std::uint32_t n_blocks_there = 0;
  std::uint32_t n_pieces_there = 0;
  SplitPrompt split;  // if it is one
};
using TransferPtr = std::shared_ptr<Transfer>;

}  // namespace coxswain::batch::handover
