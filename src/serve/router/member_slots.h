#pragma once
// MemberSlots: which member of a list has which of the router's replicas.
//
// A member keeps its replica while it is in the list, and gets it again when it comes back before another one has taken
// it. One that is new takes the first that nobody has and that is connected to nobody, then one whose shard is about to
// go. What a list says of an incarnation is not looked at: the connection tells of a process that has ended.
//
// Thread rule: one thread at a time.

#include <cstddef>
#include <string>
#include <vector>

#include "membership/membership.h"

namespace coxswain::serve {

class MemberSlots {
 public:
  struct Slot {
    membership::Member member{};  // of now, or the last one; no name: there was none
    bool is_taken = false;
  };
  struct Changes {
    // Looked at first: another member may have come in the place of one.
    std::vector<std::size_t> left;
    // With a member that is new there, or has another address or role.
    std::vector<std::size_t> came;
    std::vector<std::string> left_out{};  // names of members for which there is no replica
  };

  explicit MemberSlots(std::size_t n) : slots_(n) {}

  // `is_up`: of each replica, whether it is connected to a shard.
  Changes take(const membership::Members& list, const std::vector<bool>& is_up);
  const std::vector<Slot>& slots() const { return slots_; }

 private:
  std::size_t choose(const std::string& name, const std::vector<bool>& is_up) const;

  std::vector<Slot> slots_;
};

}  // namespace coxswain::serve
