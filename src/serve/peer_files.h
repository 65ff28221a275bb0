#pragma once
// What a router and a shard are told of other machines of their fleet.
//
// Thread rule: pure functions of their arguments and the file system.

#include <coxswain/status.h>

#include "options/options.h"
#include "security/peer_files.h"

namespace coxswain::serve {

// Empty where no --fleet-... option names a file.
security::PeerFiles peer_files(const options::OptionValues& values);

// `needed`: somebody on another machine is named. Errors: kInvalidArgument: one of the three files is missing where
// another is given or all are needed, and those of security::check_peer_files().
Status check_fleet_files(const options::OptionValues& values, bool needed);

}  // namespace coxswain::serve
