#include "runner/forced_text.h"

namespace coxswain::runner {
namespace {

constexpr double kLearn = 0.25;
constexpr double kLearnOfAll = 0.05;

}  // namespace

Guess ForcedText::guess(const grammar::TokenMasks& masks,
                        const grammar::TokenMasks::Position& place,
                        std::span<const TokenId> output,
                        std::size_t n_max,
                        double& chance) {
  if (chance_ == 0) chance_ = chance;
  learn(output, chance);
  masks.find_forced(place, n_max, ids_);
  begin_ = output.size();
  return {.ids = ids_, .chance = chance_};
}

// An output that was changed meanwhile is no worse than a wrong guess.
void ForcedText::learn(std::span<const TokenId> output, double& chance) {
  for (std::size_t i = 0; i < ids_.size() && begin_ + i < output.size(); ++i) {
    const bool right = ids_[i] == output[begin_ + i];
    chance_ += kLearn * ((right ? 1.0 : 0.0) - chance_);
    chance += kLearnOfAll * ((right ? 1.0 : 0.0) - chance);
    if (!right) break;
  }
}

}  // namespace coxswain::runner
