// What holds after every step (docs/engine.md), counted again from the beginning.

#include <unordered_map>

#include "base/fatal.h"
#include "batch/engine_core.h"

namespace coxswain::batch {

std::string EngineCore::check() const {
  if (std::string wrong = cache_->check(); !wrong.empty()) return wrong;
  const EngineStats s = stats();
  if (s.accepted != s.finished + s.failed + s.cancelled + s.queued + s.running) {
    return "requests are not conserved";
  }
  if (s.blocks_free + s.blocks_cached + s.blocks_leased + s.blocks_retiring != s.blocks_total) {
    return "blocks are not conserved";
  }
  if (std::string wrong = waiting_.check(); !wrong.empty()) return wrong;
  for (const auto& [limit, id] : deadlines_) {
    const auto it = sequences_.find(key_of(id));
    if (it == sequences_.end() || it->second->state == SequenceState::kEnding)
      return "the deadline of a request that has ended is kept";
  }
  std::uint64_t n_waiting_tokens = 0;
  for (const auto& [rank, w] : waiting_.in_order()) n_waiting_tokens += w->n_waiting_tokens;
  if (n_waiting_tokens != s.queued_tokens) return "tokens that wait differ from a recount";
  if (running_.empty() && transfers_->empty() && s.blocks_leased != 0)
    return "blocks are leased and nothing runs";
  if (steps_.empty() && s.blocks_retiring != 0)
    return "blocks are retiring and no step is in flight";
  std::unordered_map<const Sequence*, std::uint32_t> named;
  for (const Step& step : steps_) {
    for (const StepRow& row : step.rows) named[row.sequence] += row.slot == 0 ? 1 : 0;
  }
  std::size_t n_retiring = 0;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->n_in_flight != named[sequence.get()])
      return "steps in flight of a sequence differ from a recount";
    if (sequence->state == SequenceState::kEnding && sequence->n_in_flight == 0)
      return "a sequence has ended and retired and is still there";
    if (sequence->answered) ++n_retiring;
    if ((sequence->state == SequenceState::kRunning) != static_cast<bool>(sequence->lease)) {
      return "a lease and its sequence disagree";
    }
  }
  if (n_retiring != n_retiring_) return "answered sequences differ from a recount";
  return {};
}

void EngineCore::require_invariants() {
  const std::string wrong = check();
  if (wrong.empty()) return;
  observer_.on_broken_invariant(wrong);
  base::fatal(("an invariant of the engine is broken: " + wrong).c_str());
}

}  // namespace coxswain::batch
