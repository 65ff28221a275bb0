#pragma once
// What `POST /modify_cluster_state` does to a fleet (fleet/import/cluster_command.h has the body). Each replica has all
// parameters, so nothing is loaded: one that is brought up is given work again, in its new role.
//
//   TransToNewPrefill, TransToDecode, Load   the role; work is placed there again
//   TransToOldPrefill                        nothing: it has no layers to give
//   Deactivate                               drained at once
//   BeginDrain                               drained within kDrainTime
//
// Thread rule: from any thread; of two calls at once each is checked against what it finds.

#include <chrono>
#include <string_view>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "fleet/fleet.h"

namespace coxswain::serve {

// How long a replica may go on with what it has when TriggerNoramalDown takes it away.
constexpr std::chrono::seconds kDrainTime{30};

// All of it, or nothing where the body is wrong or the fleet could not serve behind it. Errors: kInvalidArgument: the
// member, or what nobody would do; kFailedPrecondition: no replica would be left that serves; where replicas have one
// role for ever, what Fleet::set_role says.
Status modify_cluster_state(fleet::Fleet& fleet, std::string_view body, TimePoint now);

}  // namespace coxswain::serve
