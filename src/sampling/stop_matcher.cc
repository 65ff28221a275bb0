#include "sampling/stop_matcher.h"

#include <algorithm>

namespace coxswain::sampling {

StopMatcher::StopMatcher(std::span<const std::string> stops) : stops_(stops.begin(), stops.end()) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

std::optional<StopMatcher::Match> StopMatcher::push(std::string_view piece) {
  if (longest_ == 0 || piece.empty()) return std::nullopt;
  const std::size_t n_before = window_.size();
  window_.append(piece);
  std::optional<Match> best;
  std::size_t best_end = 0;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    if (stops_[i].empty()) continue;
    // A match that lay wholly before the piece would have been returned then.
    const std::size_t n_earlier = stops_[i].size() - 1;
    const std::size_t at = window_.find(stops_[i], n_before > n_earlier ? n_before - n_earlier : 0);
    if (at == std::string::npos) continue;
    const std::size_t begin = window_begin_ + at;
    const std::size_t end = begin + stops_[i].size();
    if (!best || end < best_end || (end == best_end && begin < best->begin)) {
      best = Match{.begin = begin, .stop_index = i};
      best_end = end;
    }
  }
  const std::size_t keep = std::min(window_.size(), longest_ - 1);
  window_begin_ += window_.size() - keep;
  window_.erase(0, window_.size() - keep);
  return best;
}

}  // namespace coxswain::sampling
