#include "batch/beam_search.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace coxswain::batch {

bool BeamSearch::is_end(TokenId id) const {
  return std::ranges::find(end_ids_, id) != end_ids_.end();
}

double BeamSearch::score(double sum, std::uint32_t n_tokens) const {
  return sum / std::pow(double{static_cast<double>(n_tokens)}, double{params_.length_penalty});
}

std::vector<BeamSearch::Option> BeamSearch::in_order(
    std::span<const std::vector<TokenAlternative>> candidates) const {
  std::vector<Option> out;
  for (std::uint32_t i = 0; i < candidates.size(); ++i) {
    for (std::size_t rank = 0; rank < candidates[i].size(); ++rank) {
      const TokenAlternative& token = candidates[i][rank];
      const double put_back = double{params_.diversity_rate} * static_cast<double>(rank);
      out.push_back(
          {.key = beams_[i].sum + double{token.logprob} - put_back, .parent = i, .token = &token});
    }
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &Option::key);
  return out;
}

BeamSearch::Beam BeamSearch::extend(const Option& option) {
  const Beam& parent = beams_[option.parent];
  const TokenAlternative& token = *option.token;
  nodes_.push_back({.before = parent.node,
                    .token = {.id = token.id,
                              .logprob = token.logprob,
                              .special = token.special,
                              .text = token.text}});
  return {.node = static_cast<std::uint32_t>(nodes_.size()) - 1,
          .sum = parent.sum + double{token.logprob}};
}

void BeamSearch::finish(const Option& option, bool at_end_token) {
  const Beam beam = extend(option);
  const double value = score(beam.sum, n_steps_);
  const auto place =
      std::ranges::upper_bound(finished_, value, std::ranges::greater(), &Finished::score);
  finished_.insert(place, {.beam = beam, .score = value, .at_end_token = at_end_token});
  if (finished_.size() > params_.width) finished_.pop_back();
}

// Whether one of `beams` may still become one of the best `width` answers.
bool BeamSearch::can_improve(std::span<const Beam> beams) const {
  if (beams.empty()) return false;
  if (finished_.size() < params_.width) return true;
  if (params_.early_stopping == 1) return false;
  const bool may_grow = params_.early_stopping == 0 && params_.length_penalty > 0.0F;
  const double best = std::ranges::max(beams, {}, &Beam::sum).sum;
  return score(best, may_grow ? n_new_max_ : n_steps_) > finished_.back().score;
}

std::vector<BeamSearch::Child> BeamSearch::step(
    std::span<const std::vector<TokenAlternative>> candidates) {
  assert(!ended() && candidates.size() == beams_.size());
  const std::vector<Option> options = in_order(candidates);
  ++n_steps_;
  const bool is_last = n_steps_ == n_new_max_;
  std::vector<Child> children;
  std::vector<Beam> beams;
  for (std::size_t place = 0; place < options.size(); ++place) {
    const Option& option = options[place];
    const bool at_end = is_end(option.token->id);
    if (at_end || is_last) {
      if (place < params_.width) finish(option, at_end);
    } else if (children.size() < params_.width) {
      children.push_back({.parent = option.parent, .token = option.token->id});
      beams.push_back(extend(option));
    }
  }
  beams_ = std::move(beams);
  if (!can_improve(beams_)) {
    beams_.clear();
    children.clear();
  }
  return children;
}

std::vector<TokenId> BeamSearch::ids(std::size_t beam) const {
  std::vector<TokenId> out;
  for (std::uint32_t node = beams_[beam].node; node != kRoot; node = nodes_[node].before)
    out.push_back(nodes_[node].token.id);
  std::ranges::reverse(out);
  return out;
}

BeamSearch::Answer BeamSearch::answer(const Finished& found) const {
  Answer out{.tokens = {}, .score = found.score, .at_end_token = found.at_end_token};
  for (std::uint32_t node = found.beam.node; node != kRoot; node = nodes_[node].before)
    out.tokens.push_back(nodes_[node].token);
  std::ranges::reverse(out.tokens);
  return out;
}

std::vector<BeamSearch::Answer> BeamSearch::best(std::size_t n) const {
  std::vector<Finished> all = finished_;
  for (const Beam& beam : beams_) {
    if (beam.node != kRoot) all.push_back({.beam = beam, .score = score(beam.sum, n_steps_)});
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Finished::score);
  std::vector<Answer> out;
  for (std::size_t i = 0; i < std::min(n, all.size()); ++i) out.push_back(answer(all[i]));
  return out;
}

}  // namespace coxswain::batch
