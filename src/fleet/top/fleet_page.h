#pragma once
// What `GET /fleet` says (docs/fleet.md), as a page of text.
//
// Thread rule: pure functions.

#include <string>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::fleet {

// `before`: the same fleet `seconds` earlier, for rates; a replica that has begun anew since then has none. Errors:
// kInvalidArgument: not what GET /fleet answers, with the member.
Result<std::string> fleet_page(const json::Value& now, const json::Value& before, double seconds);

}  // namespace coxswain::fleet
