#pragma once
// WaitingQueue: the sequences that wait for their turn, those that were paused among them, in the order of it:
// overtaken too often, priority, arrival.
//
// Where shorter prompts go first, a sequence that never ran is ordered by the length of its prompt (the power of two
// above it, so that arrival decides among similar ones) until half of the overtakes that it may suffer are used up: in
// front of these are, of the same priority, those that were paused and those that let as many pass. So the shortest
// job goes first, and the bound on overtakes is what it was.
//
// A sequence is overtaken whenever a later arrival is admitted while it waits. One that has never run began to wait
// when it came, so all admissions of later arrivals count, and the one that came first has the most: it is enough to
// know the latest overtakes_max arrivals that were admitted. What was paused is counted one by one; there are no more
// of these than have run. No call walks over the others, and each is O(log n) of those that wait.
//
// Thread rule: one engine thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "batch/queued_by_priority.h"
#include "batch/sequence.h"

namespace coxswain::batch {

class WaitingQueue {
 public:
  // Not overtaken too often, priority, length, arrival: what is less is first.
  using Rank = std::tuple<bool, std::int64_t, std::uint32_t, std::uint64_t>;

  explicit WaitingQueue(std::uint32_t overtakes_max, bool prefers_short_prompts = false)
      : overtakes_max_(overtakes_max),
        by_length_max_(prefers_short_prompts ? overtakes_max / 2 : 0) {}

  // REQUIRES: kWaiting or kPaused, and not here.
  void insert(Sequence& s);
  // REQUIRES: here, its state and priority as they were.
  void erase(Sequence& s);
  // A sequence of that arrival, no longer here, has been admitted.
  void note_admission(std::uint64_t arrival);

  // How often `s`, which is here, was overtaken; no more than overtakes_max where it has never run.
  std::uint32_t overtaken(const Sequence& s) const;

  bool empty() const { return order_.empty(); }
  std::size_t size() const { return order_.size(); }
  const QueuedByPriority& by_priority() const { return by_priority_; }
  Sequence& front() const { return *order_.begin()->second; }
  const std::map<Rank, Sequence*>& in_order() const { return order_; }
  // By arrival.
  const std::map<std::uint64_t, Sequence*>& paused() const { return paused_; }

  // Empty, or what is wrong.
  std::string check() const;

 private:
  Rank rank(const Sequence& s) const;
  bool is_fresh(const Sequence& s) const {
    return s.state == SequenceState::kWaiting && s.turn != Turn::kNext;
  }
  Turn turn_of(const Sequence& s) const;
  std::uint32_t n_admitted_after(std::uint64_t arrival) const;
  void take_turn(Sequence& s, Turn turn);
  void prune_admitted();

  const std::uint32_t overtakes_max_;
  // Overtakes from which on a sequence is no longer ordered by length.
  const std::uint32_t by_length_max_;
  std::map<Rank, Sequence*> order_;
  QueuedByPriority by_priority_;
  // By arrival: never ran, not overtaken too often. All of fresh_ came before all of by_length_.
  std::map<std::uint64_t, Sequence*> by_length_;
  std::map<std::uint64_t, Sequence*> fresh_;   // and no longer ordered by length
  std::map<std::uint64_t, Sequence*> paused_;  // by arrival
  // Arrivals that were admitted, ascending: the last overtakes_max at most, behind the first one of these.
  std::vector<std::uint64_t> admitted_;
};

}  // namespace coxswain::batch
