#include "manager/response_tensors.h"

#include <algorithm>
#include <cstddef>
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

// The rows one behind the other, each filled up to the longest.
template <typename T>
NamedTensor in_rows(const char* name, const std::vector<std::vector<T>>& rows, T fill) {
  std::size_t n = 0;
  for (const auto& row : rows) n = std::max(n, row.size());
  std::vector<T> values;
  values.reserve(rows.size() * n);
  for (const auto& row : rows) {
    values.insert(values.end(), row.begin(), row.end());
    values.insert(values.end(), n - row.size(), fill);
  }
  return NamedTensor::of<T>(
      name, {1, static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(n)}, values);
}

}  // namespace

void Answer::add(const batch::TokenEvent& event, std::uint32_t row) {
  if (event.outputs != nullptr) {
    append(outputs_.context_logits, std::move(event.outputs->context_logits));
    append(outputs_.generation_logits, std::move(event.outputs->generation_logits));
  }
  if (event.tokens.empty()) return;
  has_news_ = true;
  Beam& beam = beams_[row];
  if (event.whole) beam = {};
  for (const OutputToken& token : event.tokens) {
    beam.ids.push_back(token.id);
    if (wishes_.log_probs) beam.log_probs.push_back(token.logprob);
  }
  beam.cum_log_prob = event.cumulative_logprob;
}

std::vector<NamedTensor> Answer::take() {
  has_news_ = false;
  const std::vector<TokenId> prompt = std::exchange(prompt_, {});
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::vector<float>> log_probs;
  std::vector<std::int32_t> lengths;
  std::vector<float> cum_log_probs;
  for (Beam& beam : beams_) {
    ids.push_back(prompt);
    ids.back().insert(ids.back().end(), beam.ids.begin(), beam.ids.end());
    lengths.push_back(static_cast<std::int32_t>(ids.back().size()));
    log_probs.push_back(std::exchange(beam.log_probs, {}));
    cum_log_probs.push_back(static_cast<float>(beam.cum_log_prob));
    beam.ids.clear();
  }
  const auto n_beams = static_cast<std::int64_t>(beams_.size());
  std::vector<NamedTensor> out;
  out.push_back(in_rows("output_ids", ids, wishes_.pad_id));
  out.push_back(NamedTensor::of<std::int32_t>("sequence_length", {1, n_beams}, lengths));
  if (index_) {
    out.push_back(
        NamedTensor::of<std::int32_t>("sequence_index", {1}, {static_cast<std::int32_t>(*index_)}));
  }
  const auto width = static_cast<std::int64_t>(vocab_size_);
  const auto rows = [&](const std::vector<float>& logits) {
    return static_cast<std::int64_t>(logits.size()) / width;
  };
  if (const auto logits = std::exchange(outputs_.context_logits, {}); !logits.empty())
    out.push_back(NamedTensor::of<float>("context_logits", {1, rows(logits), width}, logits));
  if (const auto logits = std::exchange(outputs_.generation_logits, {}); !logits.empty())
    out.push_back(NamedTensor::of<float>("generation_logits", {1, 1, rows(logits), width}, logits));
  if (!wishes_.log_probs) return out;
  out.push_back(in_rows("output_log_probs", log_probs, 0.0F));
  out.push_back(NamedTensor::of<float>("cum_log_probs", {1, n_beams}, cum_log_probs));
  return out;
}

}  // namespace coxswain::manager
