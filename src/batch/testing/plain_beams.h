#pragma once
// A beam search as a textbook has it, to compare others with: every beam is a list of tokens, all continuations of all
// beams are put in order, and nothing is shared, cached or left out.
//
// Thread rule: a pure function.

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

// The finished beams, best first.
inline std::vector<PlainBeam> plain_beam_search(const BeamParams& params,
                                                std::uint32_t n_new_max,
                                                const std::vector<TokenId>& end_ids,
                                                const NextTokens& next) {
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

}  // namespace coxswain::batch::testing
