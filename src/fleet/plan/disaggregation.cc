#include "fleet/plan/disaggregation.h"

namespace coxswain::fleet {
namespace {

// How many times as long as the gap that others are spared the one behind its first token may be.
constexpr double kGapsMax = 2.0;

}  // namespace

double seconds_lost(const PromptSite& site, double token_seconds) {
  const double own = static_cast<double>(site.own_tokens) * token_seconds;
  return static_cast<double>(site.waiting_tokens) * token_seconds + own +
         static_cast<double>(site.n_generating) * own;
}

bool pays_apart(const PromptCase& prompt) {
  const double own = static_cast<double>(prompt.together.own_tokens) * prompt.token_seconds;
  return prompt.transfer_seconds < kGapsMax * own &&
         seconds_lost(prompt.apart, prompt.token_seconds) + prompt.transfer_seconds <
             seconds_lost(prompt.together, prompt.token_seconds);
}

}  // namespace coxswain::fleet
