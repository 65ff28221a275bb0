#pragma once
// A Membership over an API that is listed and watched: the thread, the pauses, and what is told when.
//
// Thread rule: that of Membership. A ListWatch is driven by the one thread; stop() comes from another.

#include <memory>

#include "membership/membership.h"

namespace coxswain::membership {

// What a ListWatch has found out.
class Finder {
 public:
  virtual ~Finder() = default;
  // The whole list as it is now. `n_refused` entries are no members; `why` says what is wrong with one of them.
  virtual void on_list(Members members, std::uint64_t n_refused, const Status& why) = 0;
  virtual void on_standing() = 0;  // from now on a change would be heard of
};

class ListWatch {
 public:
  virtual ~ListWatch() = default;
  // What cannot get better by waiting. Called once, before follow().
  virtual Status check() = 0;
  // Lists and watches until that ends: ok if it ended as watches do, otherwise why. Called again and again.
  virtual Status follow(Finder& finder) = 0;
  // Sleeps; false at once after stop().
  virtual bool pause(std::chrono::milliseconds time) = 0;
  virtual void stop() = 0;  // any thread: ends follow() and pause()
};

std::unique_ptr<Membership> make_watched_list(std::unique_ptr<ListWatch> watch);

}  // namespace coxswain::membership
