#include "sampling/watermark.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "sampling/row_math.h"

namespace coxswain::sampling {

std::span<const std::uint32_t> green_ids(TokenId previous,
                                         double gamma,
                                         std::span<std::uint32_t> room) {
  constexpr std::uint64_t kPrime = 15'485'863;
  std::mt19937 random(static_cast<std::uint32_t>(kPrime * static_cast<std::uint64_t>(previous)));
  std::iota(room.begin(), room.end(), 0u);
  const auto n_green = static_cast<std::size_t>(static_cast<double>(room.size()) * gamma);
  // A step settles the place of one id, so those behind the green ones need none.
  for (std::size_t i = 0; i < n_green && i + 1 < room.size(); ++i) {
    const auto n_left = static_cast<std::uint32_t>(room.size() - i);
    std::swap(room[i], room[i + random() % n_left]);
  }
  return room.first(n_green);
}

void apply_watermark(CandidateSet& set, std::span<const std::uint32_t> green, float delta) {
  const std::span<float> scores = set.scores();
  for (const std::uint32_t id : green) {
    if (const auto at = set.index_of(static_cast<TokenId>(id)))
      scores[*at] = std::clamp(scores[*at] + delta, -kScoreMax, kScoreMax);
  }
}

}  // namespace coxswain::sampling
