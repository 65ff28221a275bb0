#pragma once
// From what a fleet and its replicas say to what the planner is given (plan/planner.h).
//
// Thread rule: values and pure functions.

#include <cstdint>
#include <span>
#include <string_view>

#include <coxswain/types.h>

#include "fleet/fleet.h"
#include "fleet/plan/load_history.h"
#include "fleet/plan/planner.h"

namespace coxswain::fleet {

// Whether a replica has a process.
enum class Presence : std::uint8_t {
  kAbsent,
  kStarting,  // its shard loads the model
  kPresent,
  kEnding,
};
std::string_view name_of(Presence presence);

// What whoever starts and ends processes knows of one.
struct ReplicaPlace {
  Presence presence = Presence::kPresent;
  bool up = true;                        // its shard answers
  Role role = Role::kMixed;              // starting: what it will be
  TimePoint started = TimePoint::min();  // min() = by the launcher, before anybody looked
  TimePoint start_ends{};                // starting: when it is expected to serve
  // Absent: not to be started before, because a start failed.
  TimePoint blocked_until = TimePoint::min();
};

// Nobody waits for anything that it has.
bool is_empty(const ReplicaStatus& replica);
// Drained, and empty.
bool is_warm(const ReplicaStatus& replica);

// A replica that is ending, or does not answer, is a lost one; a warm one has no role.
ReplicaView view_of(std::size_t index,
                    const ReplicaStatus& replica,
                    const ReplicaPlace& place,
                    TimePoint now);

// KV blocks that requests use; what an empty replica has is a health probe's, which asks for no replica.
std::uint32_t used_blocks(const ReplicaStatus& replica);
std::uint64_t used_blocks(const FleetStatus& status);

// REQUIRES: as many places as replicas.
Snapshot snapshot_of(TimePoint now,
                     const FleetStatus& status,
                     const FleetLoad& load,
                     const LoadHistory& history,
                     std::span<const ReplicaPlace> places);

// What is taken from the fleet that runs, unless an option says otherwise.
struct Measured {
  bool prefill = true;
  bool transfer = true;
  double start_s = 0;  // how long a replica takes from its start until it serves; 0 = unknown
};

// With the rates of this fleet in the place of the defaults, where they are known, and the blocks of a replica.
PlannerConfig measured(const PlannerConfig& config,
                       const Measured& what,
                       const FleetStatus& status,
                       const FleetLoad& load);

}  // namespace coxswain::fleet
