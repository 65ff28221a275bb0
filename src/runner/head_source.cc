#include "runner/head_source.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "runner/best_ids.h"
#include "runner/sequence_state.h"

namespace coxswain::runner {

struct HeadSource::LastRow final : StepSource::Kept {
  std::vector<float> hidden;
  std::size_t length = 0;  // of the sequence that it belongs to the end of
};

HeadSource::HeadSource(model::Model& model,
                       std::unique_ptr<model::GuessHeads> heads,
                       std::size_t n_rows,
                       std::size_t n_max,
                       kernels::ExecContext& exec)
    : model_(model),
      heads_(std::move(heads)),
      exec_(exec),
      n_rows_(n_rows),
      n_max_(std::min(n_max, heads_->config().n_heads)),
      raw_(n_rows * model.info().hidden_size),
      normed_(raw_.size()),
      logits_(n_rows * model.info().vocab_size) {}

std::uint64_t HeadSource::bytes(const model::Model& model,
                                const model::GuessHeads& heads,
                                std::size_t n_rows) {
  const model::ModelInfo& info = model.info();
  return heads.bytes() +
         n_rows * sizeof(float) * (2 * std::uint64_t{info.hidden_size} + info.vocab_size);
}

std::string_view HeadSource::name() const {
  return heads_->config().kind == model::GuessConfig::Kind::kMedusa ? "medusa" : "mlp_speculator";
}

std::unique_ptr<StepSource::Kept> HeadSource::open() {
  return std::make_unique<LastRow>();
}

std::size_t HeadSource::n_first_rows(SequenceState& state) {
  return static_cast<const LastRow&>(*state.kept).length == state.length() ? 1 : 0;
}

void HeadSource::keep_hidden(SequenceState& state, std::span<const float> row) {
  auto& last = static_cast<LastRow&>(*state.kept);
  last.hidden.assign(row.begin(), row.end());
  last.length = state.length();
}

template <typename Take>
Status HeadSource::run(std::size_t n_rounds, Take&& take) {
  const std::size_t n = tokens_.size();
  const std::size_t hidden = model_.info().hidden_size;
  const std::span<float> normed = std::span(normed_).first(n * hidden);
  const std::span<float> logits = std::span(logits_).first(n * model_.info().vocab_size);
  row_ids_.resize(n);
  std::iota(row_ids_.begin(), row_ids_.end(), 0U);
  for (std::size_t round = 0; round < n_rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    if (round == 0) {
      COXSWAIN_RETURN_IF_ERROR(
          model_.final_hidden(std::span(raw_).first(n * hidden), row_ids_, normed, exec_));
      heads_->begin(normed);
    }
    COXSWAIN_RETURN_IF_ERROR(heads_->run(tokens_, logits, exec_));
    find_best_ids(exec_, logits, model_.info().vocab_size, model_.info().vocab_size, tokens_);
    take(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return {};
}

void HeadSource::guess(std::span<Wanted> wanted) {
  wanted = wanted.first(std::min(wanted.size(), n_rows_));
  tokens_.clear();
  std::size_t n_rounds = 0;
  const std::size_t hidden = model_.info().hidden_size;
  for (const Wanted& one : wanted) {
    const auto& last = static_cast<const LastRow&>(*one.state->kept);
    std::ranges::copy(last.hidden,
                      raw_.begin() + static_cast<std::ptrdiff_t>(tokens_.size() * hidden));
    tokens_.push_back(one.state->token_at(one.state->length() - 1));
    n_rounds = std::max(n_rounds, one.n);
  }
  const auto take = [&](double seconds) {
    costs_.observe(wanted.size(), seconds);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i].ids.size() < wanted[i].n) wanted[i].ids.push_back(tokens_[i]);
  };
  // Without a further round there are just fewer guesses.
  static_cast<void>(run(n_rounds, take));
}

Status HeadSource::measure() {
  constexpr int kTimes = 4;
  for (const std::size_t n : {1U, 4U, 16U}) {
    if (n > n_rows_) break;
    for (int i = 0; i < kTimes; ++i) {
      tokens_.assign(n, 0);
      const auto take = [&](double seconds) {
        if (i > 0) costs_.observe(n, seconds);  // the first one faults memory in
      };
      COXSWAIN_RETURN_IF_ERROR(run(n_max_, take));
    }
  }
  return {};
}

}  // namespace coxswain::runner
