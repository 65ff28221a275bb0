#include "request/stop_holdback.h"

#include <algorithm>
#include <utility>

namespace coxswain::request {

namespace {

// Where the shortest stop string ends that begins at `begin`; without one, where the text does: ids ended it.
std::size_t stop_end(std::string_view text, std::size_t begin, std::span<const std::string> stops) {
  std::size_t end = text.size();
  for (const std::string& stop : stops) {
    if (text.substr(std::min(begin, text.size())).starts_with(stop))
      end = std::min(end, begin + stop.size());
  }
  return end;
}

}  // namespace

StopHoldback::StopHoldback(std::vector<std::string> stops,
                           std::vector<std::vector<TokenId>> id_stops,
                           StopText stop_text)
    : stops_(std::move(stops)), stop_text_(stop_text), id_stops_(std::move(id_stops)) {
  for (const std::vector<TokenId>& ids : id_stops_) marks_max_ = std::max(marks_max_, ids.size());
}

// A piece of this id comes next.
void StopHoldback::note(TokenId id) {
  if (marks_max_ == 0) return;
  if (marks_.size() == marks_max_) marks_.pop_front();
  marks_.push_back({.id = id, .begin = n_sent_ + held_.size()});
}

// Where the text begins of the last ids that are a stop sequence, or the beginning of one; else the end of all text.
std::size_t StopHoldback::id_stop_begin(Match match) const {
  std::size_t begin = n_sent_ + held_.size();
  for (const std::vector<TokenId>& stop : id_stops_) {
    const std::size_t least = match == Match::kWhole ? stop.size() : 1;
    for (std::size_t n = std::min(stop.size(), marks_.size()); n >= least; --n) {
      const auto first = marks_.end() - static_cast<std::ptrdiff_t>(n);
      const bool same =
          std::equal(first, marks_.end(), stop.begin(), [](const Mark& mark, TokenId id) {
            return mark.id == id;
          });
      if (same) begin = std::min(begin, first->begin);
    }
  }
  return begin;
}

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

std::string StopHoldback::push(std::string_view piece, TokenId id) {
  if (stops_.empty() && id_stops_.empty()) {
    n_sent_ += piece.size();
    return std::string(piece);
  }
  note(id);
  held_ += piece;
  const std::size_t n_out =
      std::min(held_.size() - held_suffix(), id_stop_begin(Match::kBeginning) - n_sent_);
  std::string out = held_.substr(0, n_out);
  held_.erase(0, n_out);
  n_sent_ += n_out;
  return out;
}

std::string StopHoldback::finish(std::string_view last_piece,
                                 const SequenceFinish& finish,
                                 TokenId id) {
  note(id);
  held_ += last_piece;
  if (finish.reason != FinishReason::kStopSequence) return std::move(held_);
  const std::string& text = finish.generated_text;
  std::size_t keep = 0;
  if (n_sent_ + held_.size() == text.size()) {
    keep = finish.stop_text_begin > n_sent_ ? finish.stop_text_begin - n_sent_ : 0;
  } else {
    // The streamed pieces differ from the whole text (special tokens among them): look for the stop itself.
    keep = id_stop_begin(Match::kWhole) - n_sent_;
    for (const std::string& stop : stops_) keep = std::min(keep, held_.find(stop));
  }
  if (stop_text_ == StopText::kKept) keep = stop_end(held_, keep, stops_);
  held_.resize(std::min(keep, held_.size()));
  return std::move(held_);
}

std::string_view text_through_stop(const SequenceFinish& finish,
                                   std::span<const std::string> stops) {
  const std::string_view text = finish.generated_text;
  if (finish.reason != FinishReason::kStopSequence) return text;
  return text.substr(0, stop_end(text, finish.stop_text_begin, stops));
}

std::string_view text_before_stop(const SequenceFinish& finish) {
  std::string_view text = finish.generated_text;
  if (finish.reason == FinishReason::kStopSequence) text = text.substr(0, finish.stop_text_begin);
  return text;
}

}  // namespace coxswain::request
