#pragma once
// BlitzScale's deployment file (JSON: `init_states`, `replicas`, `machines`) and stub list (JSON: URIs in rank order).
// A rank is one worker process; consecutive ranks make a replica, which is known by its lowest rank.
//
// Thread rule: values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::fleet {

enum class InitState : std::uint8_t { kPrefill, kDecode, kNormal, kInactive };

struct Deployment {
  struct Replica {
    std::vector<std::uint32_t> ranks = {};
    InitState state = InitState::kInactive;
    std::uint32_t machine = 0;
  };
  std::vector<Replica> replicas = {};
  std::uint32_t tensor_parallel = 1;  // ranks of each replica, a power of two
  std::uint32_t n_machines = 1;
};

// Errors: kInvalidArgument, which names the member, the rank and the value: a state that is none, ranks that are in no
// or in two replicas or not consecutive, replicas of different or odd sizes, states or machines that differ inside one.
Result<Deployment> read_deployment(const json::Value& document);

// Errors: kInvalidArgument for an entry that is neither http://host:port nor unix://path.
Result<std::vector<std::string>> read_stubs(const json::Value& document);

}  // namespace coxswain::fleet
