// FakeRunner: SequenceEdits.

#include <algorithm>
#include <utility>

#include "batch/testing/fake_runner.h"

namespace coxswain::batch::testing {

// Before the rows of the steps in flight: what is edited has none there.
std::optional<FakeRunner::State> FakeRunner::edited(const SequenceEdit& edit) {
  for (const Job& job : jobs_) {
    for (const Row& row : job.plan.rows) {
      if (row.sequence == edit.source || row.sequence == edit.sequence)
        violate("an edit of a sequence that is being computed");
    }
  }
  const auto source = sequences_.find(edit.source);
  if (source == sequences_.end()) {
    violate("an edit from an unknown sequence");
    return std::nullopt;
  }
  State out = source->second;
  const std::size_t n_kept = out.spec.prompt.size() + edit.n_output;
  if (n_kept > out.tokens.size()) violate("an edit keeps more outputs than there are");
  if (edit.n_output + edit.append.size() >= out.spec.stopping.max_new_tokens)
    violate("an edit leaves nothing to produce");
  out.tokens.resize(std::min(n_kept, out.tokens.size()));
  out.tokens.insert(out.tokens.end(), edit.append.begin(), edit.append.end());
  out.finished = false;
  out.computed = std::min(out.computed, static_cast<std::uint32_t>(n_kept));
  if (edit.sequence == edit.source) return out;
  out.spec.id = edit.sequence;
  out.computed = 0;
  out.submitted_sample_in_step = 0;
  for (auto& table : out.tables) table.clear();
  return out;
}

void FakeRunner::apply_edits(const StepPlan& plan) {
  std::vector<std::optional<State>> made;
  made.reserve(plan.edits.size());
  for (const SequenceEdit& edit : plan.edits) made.push_back(edited(edit));
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i]) sequences_.insert_or_assign(plan.edits[i].sequence, std::move(*made[i]));
  }
}

}  // namespace coxswain::batch::testing
