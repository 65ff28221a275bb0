#pragma once
// A member as the text that stands behind its name in etcd.
//
// Thread rule: pure functions.

#include <string>
#include <string_view>

#include "membership/membership.h"

namespace coxswain::membership {

// {"address":"10.0.0.7:9000","role":"decode","incarnation":"9f0c..."}
std::string write_member(const Member& member);

// Members of the object that are not known are passed over: a newer version may have written them. Errors:
// kInvalidArgument that names the field.
Result<Member> read_member(std::string name, std::string_view value);

}  // namespace coxswain::membership
