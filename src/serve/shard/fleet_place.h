#pragma once
// Where a shard is for the other machines of its fleet: what it listens at, and what it says of itself in etcd.
//
// Thread rule: pure functions.

#include <string>
#include <vector>

#include <coxswain/status.h>

#include "membership/membership.h"
#include "options/options.h"
#include "rpc/ip_network.h"

namespace coxswain::serve {

// Errors: kInvalidArgument that names the option: --fleet-listen or --fleet-advertise is no HOST:PORT,
// --kv-ucx-networks no list of networks, or one of these is missing that another one needs.
Status check_fleet_place(const options::OptionValues& values);

// Of --kv-ucx-networks. REQUIRES: check_fleet_place() is well.
std::vector<rpc::IpNetwork> ucx_networks(const options::OptionValues& values);

// This shard as a member, which listens at `port`. Its name is its address, so that two of one name are one place.
// `machine`: its name, for a shard that listens at all addresses. `epoch`: of its runner.
// REQUIRES: check_fleet_place() is well, --fleet-listen is given.
membership::Member fleet_member(const options::OptionValues& values,
                                int port,
                                const std::string& machine,
                                std::uint64_t epoch);

// What the system calls this machine.
std::string machine_name();

}  // namespace coxswain::serve
