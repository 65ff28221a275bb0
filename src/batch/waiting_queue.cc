#include "batch/waiting_queue.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace coxswain::batch {

WaitingQueue::Rank WaitingQueue::rank(const Sequence& s) const {
  const bool is_next = s.turn == Turn::kNext;
  // An empty prompt is not behind those who no longer let shorter ones pass.
  const auto width = static_cast<std::uint32_t>(std::bit_width(s.n_prompt));
  const std::uint32_t length = s.turn == Turn::kByLength ? 1 + width : 0;
  return {!is_next, is_next ? 0 : -std::int64_t{s.request.priority}, length, s.arrival};
}

Turn WaitingQueue::turn_of(const Sequence& s) const {
  const std::uint32_t n = overtaken(s);
  if (n >= overtakes_max_) return Turn::kNext;
  return is_fresh(s) && n < by_length_max_ ? Turn::kByLength : Turn::kByArrival;
}

void WaitingQueue::insert(Sequence& s) {
  s.turn = turn_of(s);
  order_.emplace(rank(s), &s);
  ++by_priority_.of(s.request.priority);
  if (s.state == SequenceState::kPaused) {
    paused_.emplace(s.arrival, &s);
  } else if (s.turn == Turn::kByLength) {
    by_length_.emplace_hint(by_length_.end(), s.arrival, &s);
  } else if (s.turn == Turn::kByArrival) {
    fresh_.emplace_hint(fresh_.end(), s.arrival, &s);
  }
}

void WaitingQueue::erase(Sequence& s) {
  s.overtaken = overtaken(s);
  order_.erase(rank(s));
  --by_priority_.of(s.request.priority);
  if (s.state == SequenceState::kPaused) {
    paused_.erase(s.arrival);
  } else if (s.turn == Turn::kByLength) {
    by_length_.erase(s.arrival);
  } else if (s.turn == Turn::kByArrival) {
    fresh_.erase(s.arrival);
  }
}

void WaitingQueue::note_admission(std::uint64_t arrival) {
  for (const auto& [earlier, s] : paused_) {
    if (earlier > arrival) break;
    if (++s->overtaken == overtakes_max_) take_turn(*s, Turn::kNext);
  }
  admitted_.insert(std::ranges::upper_bound(admitted_, arrival), arrival);
  while (!by_length_.empty() && n_admitted_after(by_length_.begin()->first) >= by_length_max_) {
    Sequence& s = *by_length_.begin()->second;
    by_length_.erase(by_length_.begin());
    fresh_.emplace_hint(fresh_.end(), s.arrival, &s);
    take_turn(s, Turn::kByArrival);
  }
  while (!fresh_.empty() && n_admitted_after(fresh_.begin()->first) >= overtakes_max_) {
    Sequence& s = *fresh_.begin()->second;
    fresh_.erase(fresh_.begin());
    s.overtaken = overtakes_max_;
    take_turn(s, Turn::kNext);
  }
  prune_admitted();
}

void WaitingQueue::prune_admitted() {
  const auto& first = fresh_.empty() ? by_length_ : fresh_;
  const auto begin =
      first.empty() ? admitted_.end() : std::ranges::upper_bound(admitted_, first.begin()->first);
  admitted_.erase(admitted_.begin(), begin);
}

void WaitingQueue::take_turn(Sequence& s, Turn turn) {
  order_.erase(rank(s));
  s.turn = turn;
  order_.emplace(rank(s), &s);
}

std::uint32_t WaitingQueue::n_admitted_after(std::uint64_t arrival) const {
  const auto later = std::ranges::upper_bound(admitted_, arrival);
  return static_cast<std::uint32_t>(admitted_.end() - later);
}

std::uint32_t WaitingQueue::overtaken(const Sequence& s) const {
  return is_fresh(s) ? n_admitted_after(s.arrival) : s.overtaken;
}

std::string WaitingQueue::check() const {
  std::size_t n_fresh = 0;
  std::size_t n_by_length = 0;
  std::size_t n_paused = 0;
  QueuedByPriority by_priority;
  for (const auto& [place, s] : order_) {
    if (place != rank(*s)) return "a waiting request is out of order";
    if (s->turn != turn_of(*s)) return "a request was overtaken too often and waits on";
    ++by_priority.of(s->request.priority);
    n_paused += s->state == SequenceState::kPaused ? 1 : 0;
    n_fresh += is_fresh(*s) && s->turn == Turn::kByArrival ? 1 : 0;
    n_by_length += s->turn == Turn::kByLength ? 1 : 0;
  }
  if (n_fresh != fresh_.size() || n_by_length != by_length_.size() || n_paused != paused_.size() ||
      by_priority != by_priority_)
    return "waiting requests differ from a recount";
  if (!fresh_.empty() && !by_length_.empty() && fresh_.rbegin()->first > by_length_.begin()->first)
    return "a request was overtaken more often than one that came before it";
  return {};
}

}  // namespace coxswain::batch
