#include "request/stop_holdback.h"

#include <algorithm>

namespace coxswain::request {

// Length of the longest suffix of held_ that is the beginning of a stop string.
std::size_t StopHoldback::held_suffix() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size(), held_.size()); n > longest; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n))
        longest = n;
    }
  }
  return longest;
}

std::string StopHoldback::push(std::string_view piece) {
  if (stops_.empty()) {
    n_sent_ += piece.size();
    return std::string(piece);
  }
  held_ += piece;
  const std::size_t n_out = held_.size() - held_suffix();
  std::string out = held_.substr(0, n_out);
  held_.erase(0, n_out);
  n_sent_ += n_out;
  return out;
}

std::string StopHoldback::finish(std::string_view last_piece, const SequenceFinish& finish) {
  held_ += last_piece;
  if (finish.reason != FinishReason::kStopSequence) return std::move(held_);
  const std::string& text = finish.generated_text;
  std::size_t keep = 0;
  if (n_sent_ + held_.size() == text.size()) {
    keep = finish.stop_text_begin > n_sent_ ? finish.stop_text_begin - n_sent_ : 0;
  } else {
    // The streamed pieces differ from the whole text (special tokens among them): look for the stop string itself.
    keep = held_.size();
    for (const std::string& stop : stops_) keep = std::min(keep, held_.find(stop));
  }
  held_.resize(std::min(keep, held_.size()));
  return std::move(held_);
}

std::string_view text_before_stop(const SequenceFinish& finish) {
  std::string_view text = finish.generated_text;
  if (finish.reason == FinishReason::kStopSequence) text = text.substr(0, finish.stop_text_begin);
  return text;
}

}  // namespace coxswain::request
