#include "fleet/import/deployment.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <set>
#include <utility>

namespace coxswain::fleet {
namespace {

constexpr std::array kMembers{"init_states", "replicas", "machines"};
constexpr std::array<std::pair<std::string_view, InitState>, 4> kStates{
    {{"Prefill", InitState::kPrefill},
     {"Decode", InitState::kDecode},
     {"Normal", InitState::kNormal},
     {"Inactive", InitState::kInactive}}};

std::string at_rank(std::size_t rank) {
  return " of rank " + std::to_string(rank);
}

Result<std::vector<InitState>> read_states(const json::Array& names) {
  std::vector<InitState> out;
  for (const json::Value& name : names) {
    const auto known = std::find_if(kStates.begin(), kStates.end(), [&](const auto& state) {
      return name.is_string() && name.as_string() == state.first;
    });
    if (known == kStates.end()) {
      return invalid_argument("init_states" + at_rank(out.size()) +
                              " must be Prefill, Decode, Normal or Inactive, given " +
                              json::write(name));
    }
    out.push_back(known->second);
  }
  return out;
}

Result<std::vector<std::uint32_t>> read_indices(const json::Value& list, std::string_view name) {
  if (!list.is_array()) return invalid_argument(std::string(name) + " must be an array of numbers");
  std::vector<std::uint32_t> out;
  for (const json::Value& value : list.as_array()) {
    const auto number = value.to_uint64();
    if (!number || *number > 1'000'000) {
      return invalid_argument(std::string(name) + " must hold numbers from 0 to 1000000, given " +
                              json::write(value));
    }
    out.push_back(static_cast<std::uint32_t>(*number));
  }
  return out;
}

Result<Deployment::Replica> read_replica(const json::Value& list,
                                         const std::vector<InitState>& states,
                                         const std::vector<std::uint32_t>& machines) {
  auto ranks = read_indices(list, "replicas");
  if (!ranks.ok()) return ranks.status();
  Deployment::Replica out{.ranks = std::move(ranks).value()};
  if (out.ranks.empty()) return invalid_argument("replicas must not have an empty one");
  for (std::size_t i = 0; i < out.ranks.size(); ++i) {
    const std::uint32_t rank = out.ranks[i];
    if (rank >= states.size()) {
      return invalid_argument("replicas names rank " + std::to_string(rank) + ", there are " +
                              std::to_string(states.size()));
    }
    if (rank != out.ranks[0] + i) return invalid_argument("ranks of a replica must be consecutive");
    if (states[rank] != states[out.ranks[0]]) {
      return invalid_argument("init_states" + at_rank(rank) + " must be that of its replica");
    }
    if (machines[rank] != machines[out.ranks[0]]) {
      return invalid_argument("machines" + at_rank(rank) + " must be that of its replica");
    }
  }
  out.state = states[out.ranks[0]];
  out.machine = machines[out.ranks[0]];
  return out;
}

Status check_whole(const Deployment& made, std::size_t n_ranks) {
  std::set<std::uint32_t> seen;
  for (const Deployment::Replica& replica : made.replicas) {
    if (replica.ranks.size() != made.tensor_parallel) {
      return invalid_argument("replicas must be of one size, given " +
                              std::to_string(made.tensor_parallel) + " and " +
                              std::to_string(replica.ranks.size()));
    }
    for (const std::uint32_t rank : replica.ranks) {
      if (!seen.insert(rank).second) {
        return invalid_argument("replicas has rank " + std::to_string(rank) + " twice");
      }
    }
  }
  if (!std::has_single_bit(made.tensor_parallel)) {
    return invalid_argument("the size of replicas must be a power of two, given " +
                            std::to_string(made.tensor_parallel));
  }
  if (seen.size() != n_ranks) {
    return invalid_argument("replicas must have every rank, given " + std::to_string(seen.size()) +
                            " of " + std::to_string(n_ranks));
  }
  return {};
}

}  // namespace

Result<Deployment> read_deployment(const json::Value& document) {
  if (!document.is_object()) return invalid_argument("a deployment must be an object");
  for (const auto& [name, value] : document.as_object()) {
    if (std::find(kMembers.begin(), kMembers.end(), name) == kMembers.end()) {
      return invalid_argument("a deployment has init_states, replicas and machines, given `" +
                              name + "`");
    }
    if (!value.is_array()) return invalid_argument(name + " must be an array");
  }
  for (const char* name : kMembers) {
    if (document.find(name) == nullptr) return invalid_argument(std::string(name) + " is missing");
  }
  auto states = read_states(document.find("init_states")->as_array());
  if (!states.ok()) return states.status();
  auto machines = read_indices(*document.find("machines"), "machines");
  if (!machines.ok()) return machines.status();
  const std::size_t n_ranks = states.value().size();
  if (n_ranks == 0) return invalid_argument("init_states must not be empty");
  if (machines.value().size() != n_ranks) {
    return invalid_argument("machines must have an entry for each rank, given " +
                            std::to_string(machines.value().size()) + " for " +
                            std::to_string(n_ranks));
  }
  Deployment out;
  for (const json::Value& list : document.find("replicas")->as_array()) {
    auto replica = read_replica(list, states.value(), machines.value());
    if (!replica.ok()) return replica.status();
    out.replicas.push_back(std::move(replica).value());
  }
  if (out.replicas.empty()) return invalid_argument("replicas must not be empty");
  out.tensor_parallel = static_cast<std::uint32_t>(out.replicas[0].ranks.size());
  out.n_machines = static_cast<std::uint32_t>(
      std::set<std::uint32_t>(machines.value().begin(), machines.value().end()).size());
  if (Status whole = check_whole(out, n_ranks); !whole.ok()) return whole;
  return out;
}

Result<std::vector<std::string>> read_stubs(const json::Value& document) {
  if (!document.is_array()) return invalid_argument("a stub list must be an array");
  std::vector<std::string> out;
  for (const json::Value& stub : document.as_array()) {
    const bool fits = stub.is_string() && (stub.as_string().starts_with("http://") ||
                                           stub.as_string().starts_with("unix://"));
    if (!fits) {
      return invalid_argument("stub" + at_rank(out.size()) +
                              " must be http://HOST:PORT or unix://PATH, given " +
                              json::write(stub));
    }
    out.push_back(stub.as_string());
  }
  return out;
}

}  // namespace coxswain::fleet
