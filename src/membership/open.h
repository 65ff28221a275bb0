#pragma once
// From options to a source of members, and to a shard's place in etcd.
//
// Thread rule: any thread; the files of a pod's account are read.

#include <memory>
#include <string>

#include "membership/etcd.h"
#include "membership/membership.h"
#include "options/options.h"

namespace coxswain::membership {

// Of a pod: namespace, token and ca.crt lie here.
inline constexpr const char* kAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// What --membership names, not started; `fixed` is the list of `static`. `values` are the router's.
// Errors: kInvalidArgument that names the option, those of make_fixed_membership().
Result<std::unique_ptr<Membership>> open_membership(const options::OptionValues& values,
                                                    Members fixed,
                                                    const std::string& account = kAccountFolder);

// Registers `self` if there are --etcd-endpoints, else gives null. `values` are the shard's; `on_state` as of
// register_in_etcd(). Errors: as above.
Result<std::unique_ptr<Registration>> open_registration(const options::OptionValues& values,
                                                        const Member& self,
                                                        OnSource on_state = {});

}  // namespace coxswain::membership
