#include "manager/response_tensors.h"

#include <utility>

namespace coxswain::manager {

namespace {

void append(std::vector<float>& to, std::vector<float> from) {
  if (to.empty()) {
    to = std::move(from);
  } else {
    to.insert(to.end(), from.begin(), from.end());
  }
}

}  // namespace

void Answer::add(std::span<const OutputToken> tokens, SequenceOutputs outputs) {
  append(outputs_.context_logits, std::move(outputs.context_logits));
  append(outputs_.generation_logits, std::move(outputs.generation_logits));
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
  const auto width = static_cast<std::int64_t>(vocab_size_);
  const auto rows = [&](const std::vector<float>& logits) {
    return static_cast<std::int64_t>(logits.size()) / width;
  };
  if (const auto logits = std::exchange(outputs_.context_logits, {}); !logits.empty())
    out.push_back(NamedTensor::of<float>("context_logits", {1, rows(logits), width}, logits));
  if (const auto logits = std::exchange(outputs_.generation_logits, {}); !logits.empty())
    out.push_back(NamedTensor::of<float>("generation_logits", {1, 1, rows(logits), width}, logits));
  if (!wishes_.log_probs) return out;
  const std::vector<float> log_probs = std::exchange(log_probs_, {});
  const auto n_log_probs = static_cast<std::int64_t>(log_probs.size());
  out.push_back(NamedTensor::of<float>("output_log_probs", {1, 1, n_log_probs}, log_probs));
  out.push_back(
      NamedTensor::of<float>("cum_log_probs", {1, 1}, {static_cast<float>(cum_log_prob_)}));
  return out;
}

}  // namespace coxswain::manager
