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
// What is thought of a source's time where it was not asked for long: it may have been disturbed when it was.
constexpr double kMarginToProbe = 0.6;
constexpr double kLearnOfAnswers = 0.1;

// Nothing comes behind an end token, so its row has nothing to say.
std::span<const TokenId> before_end(const SequenceState& state, std::span<const TokenId> ids) {
  return {ids.begin(), std::ranges::find_if(ids, [&](TokenId id) { return state.is_end(id); })};
}

double tokens_of(double chance, std::size_t n) {
  double sum = 0;
  double all = 1;
  for (std::size_t i = 0; i < n; ++i) sum += all *= chance;
  return sum;
}

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

Guess StepExecutor::best_known_guess(const ReadyRow& ready) {
  const Guess forced = ready.state->guess_forced(ready.n_drafts_max, forced_chance_);
  if (limits_.draft_tokens_max == 0) return forced;
  std::unique_ptr<Drafter>& drafter = ready.state->drafter;
  if (drafter == nullptr) drafter = std::make_unique<Drafter>(ready.state->spec().draft);
  drafter->follow(ready.state->spec().prompt, ready.state->output());
  const bool is_better = forced.ids.empty() || drafter->chance() > forced.chance;
  if (!drafter->has_guess() || !is_better) return forced;
  const std::size_t n_max = std::min<std::size_t>(ready.n_drafts_max, limits_.draft_tokens_max);
  return {.ids = drafter->guess(n_max), .chance = drafter->chance()};
}

// As far as each row pays.
void StepExecutor::find_known_guesses(double price) {
  bool may_probe = ++steps_without_drafts_ >= kStepsToProbe;
  for (ReadyRow& ready : rows_) {
    if (ready.n_drafts_max == 0) continue;
    ready.guess = best_known_guess(ready);
    ready.guess.ids = before_end(*ready.state, ready.guess.ids);
    const double chance = ready.guess.chance;
    std::size_t n = rows_that_pay(chance, ready.guess.ids.size(), price);
    const bool probes = n == 0 && may_probe && chance > kChanceToProbe;
    if (probes || limits_.draft_policy == DraftPolicy::kAlways) n = ready.guess.ids.size();
    ready.guess.ids = ready.guess.ids.first(n);
    if (n > 0) may_probe = false;
  }
}

// Lets the source that computes guess for the sequences that it knows more of than is known for nothing, if that pays.
void StepExecutor::guess_together(double price, std::size_t n_tokens) {
  StepSource& source = *parts_.guesser;
  RoundBase base{.tokens = static_cast<double>(n_tokens),
                 .seconds = row_costs_.step_seconds(n_base_rows_),
                 .row_seconds = row_costs_.row_seconds(n_base_rows_),
                 .row_price = price};
  candidates_.clear();
  candidate_rows_.clear();
  std::size_t n_first_rows = 0;
  for (ReadyRow& ready : rows_) {
    if (ready.n_drafts_max == 0) continue;
    const auto n_known = static_cast<double>(ready.guess.ids.size());
    const double known_tokens = tokens_of(ready.guess.chance, ready.guess.ids.size());
    base.tokens += known_tokens;
    base.seconds += n_known * base.row_seconds;
    source.begin(*ready.state);
    const std::size_t n_first = source.n_first_rows(*ready.state);
    if (n_first == 0 || (n_known > 0 && ready.guess.chance >= ready.state->kept->chance)) continue;
    const double chance = ready.state->kept->chance;
    const std::size_t n_max = std::min(ready.n_drafts_max, source.n_max());
    const auto n_left = static_cast<double>(ready.state->spec().stopping.max_new_tokens -
                                            ready.state->output().size());
    // What is behind is followed once for the steps to come, fewer where more tokens are right.
    const double n_steps =
        std::max(1.0, std::min(n_left, answer_tokens_) / (1 + tokens_of(chance, n_max)));
    n_first_rows += n_first;
    candidates_.push_back({.chance = chance,
                           .n_max = n_max,
                           .first_rows = 1 + static_cast<double>(n_first - 1) / n_steps,
                           .known_rows = n_known,
                           .known_tokens = known_tokens});
    candidate_rows_.push_back(&ready);
  }
  probes_.pass_step(base.seconds);
  const bool always = limits_.draft_policy == DraftPolicy::kAlways;
  std::size_t n_rounds = always ? source.n_max() : 0;
  // Without a step of this size there is nothing to compare with.
  if (!always && base.seconds > 0) {
    n_rounds = rounds_that_pay(source.costs(), base, candidates_, kMargin);
    const WorkCosts& costs = source.costs();
    const double seconds_to_probe = costs.seconds(static_cast<double>(n_first_rows)) +
                                    static_cast<double>(source.n_max()) *
                                        costs.seconds(static_cast<double>(candidates_.size()));
    if (n_rounds == 0 && probes_.may_take(seconds_to_probe))
      n_rounds = rounds_that_pay(costs, base, candidates_, kMarginToProbe);
  }
  guesses_.clear();
  if (n_rounds == 0 || candidates_.empty()) return;
  probes_.begin_anew();
  std::size_t n_asked = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const std::size_t n_max = std::min(n_rounds, candidates_[i].n_max);
    const std::size_t n = always ? n_max : rows_that_pay(candidates_[i].chance, n_max, price);
    if (n == 0) continue;
    guesses_.push_back({.state = candidate_rows_[i]->state, .n = n});
    candidate_rows_[n_asked++] = candidate_rows_[i];
  }
  source.guess(guesses_);
  for (std::size_t i = 0; i < n_asked; ++i) {
    if (guesses_[i].ids.empty()) continue;
    candidate_rows_[i]->guess.ids = before_end(*guesses_[i].state, guesses_[i].ids);
    candidate_rows_[i]->by_guesser = true;
    candidate_rows_[i]->guesses_end = candidate_rows_[i]->guess.ids.size() < guesses_[i].ids.size();
  }
}

void StepExecutor::add_drafts() {
  drafts_.clear();
  n_base_rows_ = 0;
  guess_time_ = {};
  // Without drafts a row has room only for what its grammar forces.
  may_guess_ = limits_.draft_tokens_max > 0 || std::ranges::any_of(rows_, &ReadyRow::n_drafts_max);
  if (!may_guess_) return;
  std::size_t n_tokens = 0;
  for (const ReadyRow& ready : rows_) {
    n_base_rows_ += ready.n_tokens;
    n_tokens += ready.emits ? 1 : 0;
  }
  const double price = kMargin * row_costs_.price(n_base_rows_, n_tokens);
  find_known_guesses(price);
  if (parts_.guesser != nullptr) {
    const auto begin = Clock::now();
    guess_together(price, n_tokens);
    guess_time_ = Clock::now() - begin;
  }
  for (ReadyRow& ready : rows_) {
    if (ready.n_drafts_max > 0 && parts_.guesser != nullptr && !ready.by_guesser)
      parts_.guesser->forget(*ready.state->kept);
    if (ready.guess.ids.empty()) continue;
    ready.first_draft = drafts_.size();
    ready.n_drafts = ready.guess.ids.size();
    ready.n_tokens += ready.n_drafts;
    drafts_.insert(drafts_.end(), ready.guess.ids.begin(), ready.guess.ids.end());
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
  if (!may_guess_ || rows_.empty()) return;
  draft_counts_.computed += drafts_.size();
  bool decodes = true;
  for (const ReadyRow& ready : rows_) {
    ready.result->n_drafts = static_cast<std::uint32_t>(ready.n_drafts);
    decodes &= ready.n_tokens - ready.n_drafts == 1;
    if (ready.result->finish) {
      answer_tokens_ +=
          kLearnOfAnswers * (static_cast<double>(ready.state->output().size()) - answer_tokens_);
    }
    // An end that was guessed has no row, but it may be wrong, too.
    if ((ready.n_drafts == 0 && !ready.guesses_end) || ready.result->tokens.empty()) continue;
    const std::size_t n_right = ready.result->tokens.size() - 1;
    draft_counts_.accepted += n_right;
    if (!ready.by_guesser) continue;
    const bool one_wrong = (n_right < ready.n_drafts || ready.guesses_end) && !ready.result->finish;
    parts_.guesser->learn(*ready.state->kept, n_right, one_wrong);
  }
  const std::chrono::duration<double> time = timings_.forward + timings_.sample;
  if (decodes) row_costs_.observe(n_base_rows_, n_base_rows_ + drafts_.size(), time.count());
  timings_.forward += guess_time_;
}

}  // namespace coxswain::runner
