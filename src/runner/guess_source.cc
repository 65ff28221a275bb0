#include "runner/guess_source.h"

#include <algorithm>
#include <bit>

#include "runner/best_ids.h"
#include "runner/sequence_state.h"
#include "sampling/row_math.h"

namespace coxswain::runner {
namespace {

constexpr double kLearn = 0.15;
constexpr double kLearnOfAll = 0.02;
// What a sequence is thought of that has not been tried for long, at least.
constexpr double kChanceMin = 0.4;
constexpr double kForget = 0.01;

constexpr double kLearnTime = 0.1;
// Work is disturbed, not helped: a shorter time counts for more.
constexpr double kLearnShorterTime = 0.3;
// What took much longer than it should was disturbed.
constexpr double kOutlier = 3;

}  // namespace

void WorkCosts::observe(std::size_t n_rows, double seconds) {
  if (n_rows == 0) return;
  Mean& mean = means_[std::min<std::size_t>(std::bit_width(n_rows), kSizes - 1)];
  const auto rows = static_cast<double>(n_rows);
  if (mean.rows == 0) {
    mean = {.rows = rows, .seconds = seconds};
    return;
  }
  seconds = std::min(seconds, kOutlier * this->seconds(rows));
  const double rate = seconds < this->seconds(rows) ? kLearnShorterTime : kLearnTime;
  mean.rows += rate * (rows - mean.rows);
  mean.seconds += rate * (seconds - mean.seconds);
}

double WorkCosts::seconds(double n_rows) const {
  const Mean* below = nullptr;
  for (const Mean& mean : means_) {
    if (mean.rows == 0) continue;
    if (mean.rows <= n_rows) {
      below = &mean;
      continue;
    }
    if (below == nullptr) return mean.seconds;
    const double share = (n_rows - below->rows) / (mean.rows - below->rows);
    return below->seconds + share * (mean.seconds - below->seconds);
  }
  return below == nullptr ? 0 : below->seconds * n_rows / below->rows;
}

void find_best_ids(kernels::ExecContext& exec,
                   std::span<const float> logits,
                   std::size_t width,
                   std::size_t n_ids,
                   std::span<TokenId> ids) {
  exec.pool().run(ids.size(), [&](std::size_t index, std::size_t) {
    const auto row = logits.subspan(index * width, n_ids);
    ids[index] = static_cast<TokenId>(sampling::summarise(row).argmax);
  });
}

void StepSource::begin(SequenceState& state) {
  if (state.kept != nullptr) return;
  state.kept = open();
  state.kept->chance = std::max(chance_, kChanceMin);
}

void StepSource::learn(Kept& kept, std::size_t n_right, bool one_wrong) {
  const auto see = [](double& chance, double rate, double value) {
    chance += rate * (value - chance);
  };
  for (std::size_t i = 0; i < n_right; ++i) {
    see(kept.chance, kLearn, 1);
    see(chance_, kLearnOfAll, 1);
  }
  if (!one_wrong) return;
  see(kept.chance, kLearn, 0);
  see(chance_, kLearnOfAll, 0);
}

void StepSource::forget(Kept& kept) const {
  kept.chance += kForget * (std::max(chance_, kChanceMin) - kept.chance);
}

std::size_t rows_that_pay(double chance, std::size_t n_max, double price) {
  std::size_t n = 0;
  for (double all = chance; n < n_max && all > price; all *= chance) ++n;
  return n;
}

std::size_t rounds_that_pay(const WorkCosts& costs,
                            const RoundBase& base,
                            std::span<const RoundCandidate> candidates,
                            double margin) {
  double tokens = base.tokens;
  double seconds = base.seconds;
  double rows = 0;
  std::size_t n_max = 0;
  std::vector<double> chances;  // of the next round to be reached and right, if it pays
  for (const RoundCandidate& candidate : candidates) {
    chances.push_back(candidate.chance > base.row_price ? candidate.chance : 0);
    if (chances.back() == 0) continue;
    tokens -= candidate.known_tokens;
    seconds -= candidate.known_rows * base.row_seconds;
    rows += candidate.first_rows;
    n_max = std::max(n_max, candidate.n_max);
  }
  std::size_t best = 0;
  double best_rate = base.seconds > 0 ? base.tokens / base.seconds : 0;
  for (std::size_t round = 1; round <= n_max; ++round) {
    double n_guesses = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (chances[i] <= base.row_price || round > candidates[i].n_max) continue;
      tokens += chances[i];
      n_guesses += 1;
      chances[i] *= candidates[i].chance;
    }
    if (n_guesses == 0) break;
    seconds +=
        margin * (costs.seconds(round == 1 ? rows : n_guesses) + n_guesses * base.row_seconds);
    if (tokens / seconds <= best_rate) continue;
    best = round;
    best_rate = tokens / seconds;
  }
  return best;
}

}  // namespace coxswain::runner
