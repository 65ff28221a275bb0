#pragma once
// The transitions of a replica as one pure function: the same state, message and time give the same answer. It has an
// answer for every state and every message; what means nothing is ignored and counted, what may not be is refused with
// a reason, and what another life says is stale. So whoever drives it needs no state of its own.

#include <string>
#include <vector>

#include <coxswain/types.h>

#include "fleet/state/replica_events.h"
#include "fleet/state/replica_state.h"

namespace coxswain::fleet {

enum class Verdict : std::uint8_t { kDone, kIgnored, kRefused, kStale };

struct Transition {
  ReplicaState state{};
  Verdict verdict = Verdict::kDone;
  std::string reason = {};  // refused: why, in one sentence
  std::vector<Action> actions = {};
};

// REQUIRES: check(state, config) is ok; so it is of the new state. What is not done changes counts alone.
Transition step(const ReplicaState& state,
                const Message& message,
                TimePoint now,
                const ReplicaConfig& config);

// The command that a manual one means in this state. Errors: kFailedPrecondition, names the states it is legal from.
Result<Event> command_of(const Manual& manual, const ReplicaState& state);

}  // namespace coxswain::fleet
