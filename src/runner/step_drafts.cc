// StepExecutor: the rows that are computed behind what is known of a sequence, and what they were worth.

#include <algorithm>
#include <chrono>
#include <memory>

#include "runner/step_executor.h"

namespace coxswain::runner {
namespace {

// Where drafts do not seem to pay, one sequence has some in every so many steps: what they cost is learned anew.
constexpr std::uint32_t kStepsToProbe = 64;
constexpr double kChanceToProbe = 0.5;
// A row must be worth so much more than it costs.
constexpr double kMargin = 1.15;

}  // namespace

// Beyond the known positions of the row. What each position gives beside a token is given for one position alone.
std::size_t StepExecutor::drafts_allowed(const ReadyRow& ready) const {
  const Row& row = *ready.row;
  const SequenceState& state = *ready.state;
  if (row.n_draft_max == 0 || !ready.emits || row.prompt_logprobs || row.context_outputs ||
      state.spec().outputs.any_generation()) {
    return 0;
  }
  const std::size_t n_taken = row.continues ? ready.n_tokens - row.n_tokens : 0;
  const std::size_t n_left = state.spec().stopping.max_new_tokens - state.output().size();
  return std::min<std::size_t>(row.n_draft_max - n_taken, n_left - 1);
}

void StepExecutor::add_drafts() {
  drafts_.clear();
  n_base_rows_ = 0;
  if (limits_.draft_tokens_max == 0) return;
  std::size_t n_tokens = 0;
  for (ReadyRow& ready : rows_) {
    n_base_rows_ += ready.n_tokens;
    n_tokens += ready.emits ? 1 : 0;
    if (ready.n_drafts_max == 0) continue;
    std::unique_ptr<Drafter>& drafter = ready.state->drafter;
    if (drafter == nullptr) drafter = std::make_unique<Drafter>(ready.state->spec().draft);
    drafter->follow(ready.state->spec().prompt, ready.state->output());
  }
  const double price = kMargin * row_costs_.price(n_base_rows_, n_tokens);
  bool may_probe = ++steps_without_drafts_ >= kStepsToProbe;
  for (ReadyRow& ready : rows_) {
    if (ready.n_drafts_max == 0 || !ready.state->drafter->has_guess()) continue;
    const double chance = ready.state->drafter->chance();
    std::size_t n = 0;
    for (double all = chance; n < ready.n_drafts_max && all > price; all *= chance) ++n;
    const bool probes = n == 0 && may_probe && chance > kChanceToProbe;
    if (probes || limits_.draft_policy == DraftPolicy::kAlways) n = ready.n_drafts_max;
    const std::span<const TokenId> guess = ready.state->drafter->guess(n);
    if (guess.empty()) continue;
    ready.first_draft = drafts_.size();
    ready.n_drafts = guess.size();
    ready.n_tokens += guess.size();
    drafts_.insert(drafts_.end(), guess.begin(), guess.end());
    may_probe = false;
    steps_without_drafts_ = 0;
  }
}

bool StepExecutor::goes_on(const ReadyRow& ready, std::size_t position, TokenId token) const {
  const std::size_t first_draft = ready.first_position + ready.n_tokens - ready.n_drafts;
  const std::size_t index = position + 1 - first_draft;
  return index < ready.n_drafts && drafts_[ready.first_draft + index] == token;
}

// Of steps that only decode: prompts have other costs.
void StepExecutor::observe_cost() {
  if (limits_.draft_tokens_max == 0 || rows_.empty()) return;
  draft_counts_.computed += drafts_.size();
  bool decodes = true;
  for (const ReadyRow& ready : rows_) {
    if (ready.n_drafts > 0 && !ready.result->tokens.empty())
      draft_counts_.accepted += ready.result->tokens.size() - 1;
    decodes &= ready.n_tokens - ready.n_drafts == 1;
  }
  if (!decodes) return;
  const std::chrono::duration<double> time = timings_.forward + timings_.sample;
  row_costs_.observe(n_base_rows_, n_base_rows_ + drafts_.size(), time.count());
}

}  // namespace coxswain::runner
