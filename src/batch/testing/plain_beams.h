#pragma once
// A beam search as a textbook has it, to compare others with: every beam is a list of tokens, all continuations of all
// beams are put in order, and nothing is shared, cached or left out.
//
// Thread rule: pure functions; the one over a runner is called by one thread.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <coxswain/beam_params.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>
#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"

namespace coxswain::batch::testing {

struct PlainBeam {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  double sum = 0.0;
  double score = 0.0;  // of a finished one
  bool at_end_token = false;

  friend bool operator==(const PlainBeam&, const PlainBeam&) = default;
};

// What may follow the prompt and these outputs: the whole vocabulary, best first.
using NextTokens = std::function<std::vector<TokenAlternative>(const std::vector<TokenId>& output)>;

// The finished beams, best first. `told`: behind each step but the last these and the beams as they are, best first.
inline std::vector<PlainBeam> plain_beam_search(
    const BeamParams& params,
    std::uint32_t n_new_max,
    const std::vector<TokenId>& end_ids,
    const NextTokens& next,
    std::vector<std::vector<PlainBeam>>* told = nullptr) {
  const auto by_score = [](const PlainBeam& a, const PlainBeam& b) { return a.score > b.score; };
  std::vector<PlainBeam> beams(1);
  std::vector<PlainBeam> finished;
  for (std::uint32_t length = 1; length <= n_new_max; ++length) {
    std::vector<std::pair<double, PlainBeam>> all;
    for (const PlainBeam& beam : beams) {
      int rank = 0;
      for (const TokenAlternative& token : next(beam.ids)) {
        PlainBeam longer = beam;
        longer.ids.push_back(token.id);
        longer.logprobs.push_back(token.logprob);
        longer.sum += static_cast<double>(token.logprob);
        longer.at_end_token = std::count(end_ids.begin(), end_ids.end(), token.id) > 0;
        const double less = static_cast<double>(params.diversity_rate) * rank++;
        all.emplace_back(longer.sum - less, std::move(longer));
      }
    }
    std::stable_sort(
        all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    const double divisor = std::pow(length, static_cast<double>(params.length_penalty));
    for (std::size_t i = 0; i < all.size() && i < params.width; ++i) {
      PlainBeam& beam = all[i].second;
      if (!beam.at_end_token && length < n_new_max) continue;
      beam.score = beam.sum / divisor;
      finished.push_back(beam);
    }
    std::stable_sort(finished.begin(), finished.end(), by_score);
    if (finished.size() > params.width) finished.resize(params.width);
    beams.clear();
    for (auto& [key, beam] : all) {
      if (!beam.at_end_token && beams.size() < params.width) beams.push_back(std::move(beam));
    }
    if (told != nullptr) {
      std::vector<PlainBeam>& now = told->emplace_back(finished);
      for (PlainBeam beam : beams) {
        beam.score = beam.sum / divisor;
        now.push_back(std::move(beam));
      }
      std::stable_sort(now.begin(), now.end(), by_score);
    }
    if (finished.size() < params.width) continue;
    if (params.early_stopping == 1) break;
    double best = -INFINITY;
    for (const PlainBeam& beam : beams) best = std::max(best, beam.sum);
    const bool longest = params.early_stopping == 0 && params.length_penalty > 0.0F;
    const double least = std::pow(longest ? n_new_max : length, double{params.length_penalty});
    if (best / least <= finished.back().score) break;
  }
  return finished;
}

inline std::vector<TokenId> end_ids_of(const RunnerInfo& info, const StoppingParams& stopping) {
  if (stopping.ignore_eos) return {};
  return stopping.end_ids.empty() ? info.eos_token_ids : stopping.end_ids;
}

// The same over a FakeRunner with these options.
inline std::vector<PlainBeam> plain_beam_search(
    const FakeRunnerOptions& fake,
    const GenerationRequest& request,
    std::vector<std::vector<PlainBeam>>* told = nullptr) {
  const auto next = [&](const std::vector<TokenId>& output) {
    std::vector<TokenId> tokens = request.prompt;
    tokens.insert(tokens.end(), output.begin(), output.end());
    return candidates_behind(fake, request, tokens, fake.vocab_size);
  };
  return plain_beam_search(request.beams,
                           request.stopping.max_new_tokens,
                           end_ids_of(fake.about, request.stopping),
                           next,
                           told);
}

// The same over a runner that nobody else uses meanwhile: each beam of each step is computed from its first token on,
// as one chunk, in blocks that nobody has.
inline std::vector<PlainBeam> plain_beam_search(StepRunner& runner,
                                                const GenerationRequest& request) {
  const RunnerInfo info = runner.info();
  std::uint64_t step = 0;
  const auto id_in = [](std::uint64_t n) { return SequenceId{1'000'000 + n}; };
  const auto next = [&](const std::vector<TokenId>& output) {
    StepPlan plan{.step = ++step, .epoch = info.epoch};
    const auto n_prompt = static_cast<std::uint32_t>(request.prompt.size());
    Row row{.sequence = id_in(step)};
    row.n_tokens = n_prompt + static_cast<std::uint32_t>(output.size());
    row.emit = Emit::kCandidates;
    row.n_candidates = info.capabilities.candidates_max;
    for (std::uint32_t g = 0; g < info.kv_groups.size(); ++g) {
      BlockTableChange table{.kv_group = g};
      for (BlockId block = 1; (block - 1) * info.block_tokens < row.n_tokens; ++block)
        table.blocks.push_back(block);
      row.table_changes.push_back(std::move(table));
    }
    if (step > 1) plan.dropped = {id_in(step - 1)};
    plan.new_sequences = {{.id = id_in(step),
                           .prompt = request.prompt,
                           .produced = output,
                           .sampling = request.sampling,
                           .stopping = request.stopping,
                           .rope_length = n_prompt + request.stopping.max_new_tokens}};
    plan.rows = {std::move(row)};
    auto result = runner.run(std::move(plan));
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (!result.ok()) return std::vector<TokenAlternative>();
    EXPECT_TRUE(result->sequences[0].status.ok()) << result->sequences[0].status.message();
    return std::move(result->sequences[0].candidates);
  };
  auto out = plain_beam_search(
      request.beams, request.stopping.max_new_tokens, end_ids_of(info, request.stopping), next);
  const auto dropped =
      runner.run({.step = step + 1, .epoch = info.epoch, .dropped = {id_in(step)}});
  EXPECT_TRUE(dropped.ok()) << dropped.status().message();
  return out;
}

}  // namespace coxswain::batch::testing
