#pragma once
// Where a replica loads its parameters from: other replicas first, then host memory, then disk.
//
// A prefill replica sends KV all the time, so parameters leave from elsewhere if they can (BlitzScale, OSDI '25: a busy
// source takes 1.5 times as long and puts 50 % on the gaps between tokens at the tail). One copy in host memory of the
// whole fleet, or the disk, is there also when no replica is.
//
// Pure functions. Thread rule: none.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <coxswain/types.h>

#include "fleet/state/ids.h"
#include "fleet/state/replica_state.h"

namespace coxswain::fleet {

// What a planner knows of a replica.
struct ReplicaView {
  ReplicaLife life{};
  std::uint32_t machine = 0;
  bool lost = false;
  Role role = Role::kNone;
  Role former_role = Role::kNone;  // before it was drained
  Residency residency = Residency::kAbsent;
  Assist assist = Assist::kNone;
  bool draining = false;
  bool ingress_held = false;
  std::uint32_t used_blocks = 0;
  bool sends_params = false;  // its link is taken
  bool receives_params = false;
  TimePoint load_ends{};  // loading: when all layers will have arrived

  bool is_warm() const { return !lost && residency == Residency::kResident && role == Role::kNone; }
  bool is_cold() const { return !lost && residency == Residency::kAbsent; }
};

ReplicaView view_of(const ReplicaState& state, std::uint32_t machine);

struct SourceOptions {
  bool peers = true;
  // False: prefill replicas send parameters, too, and before all others. For comparison.
  bool avoid_interference = true;
  // Machines whose host memory has the parameters, in any order.
  std::vector<std::uint32_t> host_copies = {};
  bool disk = true;
};

// Peers that can send now: warm, then draining, then decoding by rising use, then mixed ones likewise. Only if none of
// these is there: prefill replicas; else those that load, which pass on what they receive (live targets, whose links
// have more to do, if no other one loads). Who assists, has a backlog from its load or sends already is none.
std::vector<ReplicaLife> rank_peers(std::span<const ReplicaView> replicas,
                                    const SourceOptions& options);

// All sources of a load for a replica of `machine`, best first. Host memory counts on this machine or another.
std::vector<LoadSource> rank_sources(std::span<const ReplicaView> replicas,
                                     std::uint32_t machine,
                                     const SourceOptions& options);

// The next source when `failed` is lost; empty if it was the last. A load goes on behind the layers that have arrived
// (replica_step.h: ResumeLoad, SourceChosen).
std::optional<LoadSource> next_source(std::span<const LoadSource> ranked, const LoadSource& failed);

// What a loader may read or send in a second, so that it does not take the link or the disk from requests: a bucket of
// `burst_bytes` that refills at `bytes_per_s`; 0 = no limit.
struct LoadRate {
  double bytes_per_s = 0.0;
  double burst_bytes = 4 << 20;
};
struct LoadBudget {
  double bytes = 0.0;  // in the bucket; negative: it was overdrawn
  TimePoint at{};
};
LoadBudget full_budget(const LoadRate& rate, TimePoint now);
// Takes the bytes out and says how long to wait before they may be sent.
std::chrono::nanoseconds take_bytes(LoadBudget& budget,
                                    const LoadRate& rate,
                                    double n_bytes,
                                    TimePoint now);

}  // namespace coxswain::fleet
