#include "batch/waiting_queue.h"

#include <algorithm>
#include <cassert>

namespace coxswain::batch {

WaitingQueue::Rank WaitingQueue::rank(const Sequence& s) const {
  return {!s.is_next, s.is_next ? 0 : -std::int64_t{s.request.priority}, s.arrival};
}

void WaitingQueue::insert(Sequence& s) {
  s.is_next = overtaken(s) >= overtakes_max_;
  order_.emplace(rank(s), &s);
  if (s.state == SequenceState::kPaused) {
    paused_.emplace(s.arrival, &s);
  } else if (!s.is_next) {
    fresh_.emplace_hint(fresh_.end(), s.arrival, &s);
  }
}

void WaitingQueue::erase(Sequence& s) {
  s.overtaken = overtaken(s);
  order_.erase(rank(s));
  if (s.state == SequenceState::kPaused) {
    paused_.erase(s.arrival);
  } else if (!s.is_next) {
    fresh_.erase(s.arrival);
  }
}

void WaitingQueue::note_admission(std::uint64_t arrival) {
  for (const auto& [earlier, s] : paused_) {
    if (earlier > arrival) break;
    if (++s->overtaken == overtakes_max_) move_forward(*s);
  }
  if (fresh_.empty()) {
    admitted_.clear();
    return;
  }
  admitted_.insert(std::ranges::upper_bound(admitted_, arrival), arrival);
  while (!fresh_.empty() && n_admitted_after(fresh_.begin()->first) >= overtakes_max_) {
    Sequence& s = *fresh_.begin()->second;
    fresh_.erase(fresh_.begin());
    s.overtaken = overtakes_max_;
    move_forward(s);
  }
  const auto begin =
      fresh_.empty() ? admitted_.end() : std::ranges::upper_bound(admitted_, fresh_.begin()->first);
  admitted_.erase(admitted_.begin(), begin);
}

void WaitingQueue::move_forward(Sequence& s) {
  order_.erase(rank(s));
  s.is_next = true;
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
  std::size_t n_paused = 0;
  for (const auto& [place, s] : order_) {
    if (place != rank(*s)) return "a waiting request is out of order";
    if (s->is_next != (overtaken(*s) >= overtakes_max_))
      return "a request was overtaken too often and waits on";
    n_paused += s->state == SequenceState::kPaused ? 1 : 0;
    n_fresh += is_fresh(*s) ? 1 : 0;
  }
  if (n_fresh != fresh_.size() || n_paused != paused_.size())
    return "waiting requests differ from a recount";
  return {};
}

}  // namespace coxswain::batch
