#pragma once
// Names of what a fleet is made of. Values only.

#include <compare>
#include <cstdint>

namespace coxswain::fleet {

enum class ReplicaId : std::uint32_t {
};  // a place in the fleet, dense from 0; processes come and go in it
enum class TransferId : std::uint64_t {};  // one hand-over of KV blocks; never used twice

// One process in a place. Every message, reservation and transfer names the life that it is of, and what a former life
// says is refused: two lives of one replica share nothing.
struct ReplicaLife {
  ReplicaId replica{};
  std::uint64_t incarnation = 0;  // rises with each process; 0 is none
  friend auto operator<=>(const ReplicaLife&, const ReplicaLife&) = default;
};

}  // namespace coxswain::fleet
