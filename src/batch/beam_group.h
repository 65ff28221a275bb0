#pragma once
// BeamGroup: what a sequence that searches by beams has beside the others of its kind: its beams, in slots.
//
// A beam of the search lies in a slot: a lease, a sequence of the runner, and the candidates that the runner lists
// behind it. Slot 0 is the sequence itself: it computes the prompt, and then one of the beams. All beams are equally
// long, so the counters of the sequence (planned, computed, in flight) are those of all of them.
//
// When the candidates of all are there the search chooses. A beam that goes on stays in its slot with its first child;
// further children take slots of beams that end, or new ones: their leases are forks, their state in the runner an edit
// (SequenceEdit), told with their next rows. A pause forgets the search, which begins again behind its prompt and then
// finds the same beams and answers.
//
// Thread rule: one engine thread.

#include <cstdint>
#include <utility>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "batch/beam_search.h"
#include "batch/engine.h"
#include "kvcache/kv_cache.h"

namespace coxswain::batch {

struct BeamSlot {
  SequenceId id{};
  bool known_to_runner = false;
  kvcache::KvLease lease;
  std::vector<std::uint32_t> table_sent;  // per KV group: entries the runner has
  TokenId token = 0;                      // the one whose position comes next
};

struct BeamTold {
  std::uint32_t n_tokens = 0;
  double cumulative_logprob = 0.0;
};

struct BeamGroup {
  explicit BeamGroup(BeamSearch begun) : search(std::move(begun)) {}

  BeamSearch search;
  std::vector<BeamSlot> more;             // slots 1, 2, ... of the beams; slot 0 is the sequence
  std::vector<std::uint32_t> slot_of{0};  // per beam of the search
  std::vector<SequenceEdit> edits;        // not yet told
  // Of slots without a beam: others may begin as edits of them, so the runner forgets them one choice later.
  std::vector<SequenceId> spent;
  // By slot, of the step that is applied: what the rows before that of slot 0 gave.
  std::vector<std::vector<TokenAlternative>> candidates;
  Status failure;                   // of one of these
  bool runner_has_output = false;   // of slot 0
  std::vector<TokenEvent> answers;  // once the search has ended
  std::vector<BeamTold> told;       // per answer: what a stream has been told of it

  bool has_begun() const { return search.n_steps() > 0; }
  std::uint32_t n_slots() const { return 1 + static_cast<std::uint32_t>(more.size()); }
  // Entries of the tables in slots 1, 2, ...
  std::uint32_t n_more_blocks() const {
    std::uint32_t n = 0;
    for (const BeamSlot& slot : more) n += slot.lease.n_blocks();
    return n;
  }
  std::uint32_t n_more_released(std::size_t group) const {
    std::uint32_t n = 0;
    for (const BeamSlot& slot : more) n += slot.lease.n_released(group);
    return n;
  }
};

}  // namespace coxswain::batch
