#include "manager/response_tensors.h"

#include <utility>

namespace coxswain::manager {

void Answer::add(std::span<const OutputToken> tokens) {
  for (const OutputToken& token : tokens) {
    ids_.push_back(token.id);
    if (!wishes_.log_probs) continue;
    log_probs_.push_back(token.logprob);
    cum_log_prob_ += double{token.logprob};
  }
  has_news_ = has_news_ || !tokens.empty();
}

std::vector<NamedTensor> Answer::take() {
  has_news_ = false;
  const std::vector<TokenId> ids = std::exchange(ids_, {});
  const auto n = static_cast<std::int64_t>(ids.size());
  std::vector<NamedTensor> out;
  out.push_back(NamedTensor::of<std::int32_t>("output_ids", {1, 1, n}, ids));
  out.push_back(NamedTensor::of<std::int32_t>(
      "sequence_length", {1, 1}, {static_cast<std::int32_t>(ids.size())}));
  if (!wishes_.log_probs) return out;
  const std::vector<float> log_probs = std::exchange(log_probs_, {});
  const auto n_log_probs = static_cast<std::int64_t>(log_probs.size());
  out.push_back(NamedTensor::of<float>("output_log_probs", {1, 1, n_log_probs}, log_probs));
  out.push_back(
      NamedTensor::of<float>("cum_log_probs", {1, 1}, {static_cast<float>(cum_log_prob_)}));
  return out;
}

}  // namespace coxswain::manager
