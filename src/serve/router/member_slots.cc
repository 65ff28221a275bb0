#include "serve/router/member_slots.h"

#include <algorithm>
#include <set>

namespace coxswain::serve {

using membership::Member;

MemberSlots::Changes MemberSlots::take(const membership::Members& list,
                                       const std::vector<bool>& is_up) {
  Changes out;
  std::set<std::string_view> placed;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.is_taken) continue;
    const auto found = std::ranges::find(list, slot.member.name, &Member::name);
    if (found == list.end()) {
      slot.is_taken = false;
      out.left.push_back(i);
      continue;
    }
    placed.insert(found->name);
    const bool changes = found->address != slot.member.address || found->role != slot.member.role;
    slot.member = *found;
    if (changes) out.came.push_back(i);
  }
  for (const Member& member : list) {
    if (placed.contains(member.name)) continue;
    const std::size_t i = choose(member.name, is_up);
    if (i == slots_.size()) {
      out.left_out.push_back(member.name);
      continue;
    }
    slots_[i] = {.member = member, .is_taken = true};
    out.came.push_back(i);
  }
  return out;
}

// The number of all: there is none.
std::size_t MemberSlots::choose(const std::string& name, const std::vector<bool>& is_up) const {
  std::size_t free = slots_.size();
  std::size_t leaving = slots_.size();
  for (std::size_t i = slots_.size(); i-- > 0;) {
    if (slots_[i].is_taken) continue;
    if (slots_[i].member.name == name) return i;
    (is_up[i] ? leaving : free) = i;
  }
  return free != slots_.size() ? free : leaving;
}

}  // namespace coxswain::serve
