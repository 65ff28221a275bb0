#pragma once
// What every source does with the members that it finds.
//
// Thread rule: pure functions.

#include "membership/membership.h"

namespace coxswain::membership {

// Sorted by name. Errors: kInvalidArgument if two have one name, or an address is none.
Result<Members> checked(Members members);

}  // namespace coxswain::membership
