#pragma once
// What a replica of a fleet is doing: six regions that change independently (role, parameters, admission, assistance,
// drain, ingress) and counts of its work. replica_step.h has the transitions, docs/fleet-control.md the drawing.
//
// BlitzScale (OSDI '25) has twenty names for the combinations that it knows; blitz_name gives them for ours.
//
// Thread rule: values.

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "fleet/state/ids.h"

namespace coxswain::fleet {

enum class Role : std::uint8_t { kNone, kPrefill, kDecode, kMixed };
constexpr bool computes_prompts(Role role) {
  return role == Role::kPrefill || role == Role::kMixed;
}
constexpr bool generates(Role role) {
  return role == Role::kDecode || role == Role::kMixed;
}
enum class Residency : std::uint8_t { kAbsent, kLoading, kResident };
enum class SourceTier : std::uint8_t { kPeer, kHostMemory, kDisk };

// Where parameters come from; `peer` for SourceTier::kPeer alone.
struct LoadSource {
  SourceTier tier = SourceTier::kDisk;
  ReplicaLife peer{};
  friend bool operator==(const LoadSource&, const LoadSource&) = default;
};

// Parameters are an image in execution order, so any number of first layers can be run.
struct Params {
  Residency residency = Residency::kAbsent;
  std::uint32_t layers_ready = 0;
  LoadSource source{};     // loading only
  std::uint64_t load = 0;  // counts the loads of this life; what an earlier load says is ignored
  friend bool operator==(const Params&, const Params&) = default;
};

enum class Admission : std::uint8_t {
  kOpen,      // takes requests of the shared queue (a decode replica: none come)
  kPullOnly,  // takes what a relay gives it, none of the queue
  kClosed,
};

// Live loading: the target runs the layers that it has, its donor the others.
enum class Assist : std::uint8_t { kNone, kTarget, kRefractory, kDonor };

enum class DrainPhase : std::uint8_t {
  kNo,
  kWaiting,    // until the deadline work ends by itself
  kMigrating,  // then it is handed on; what remains at the second deadline is computed elsewhere
};

struct Drain {
  DrainPhase phase = DrainPhase::kNo;
  TimePoint deadline{};
  friend bool operator==(const Drain&, const Drain&) = default;
};

// Whether sequences of other replicas may be handed over to this one.
struct Ingress {
  bool open = false;
  bool held = false;          // KV pressure: an open ingress refuses until it is over
  std::uint32_t inbound = 0;  // hand-overs that were granted and have not ended
  friend bool operator==(const Ingress&, const Ingress&) = default;
};

// Requests by what this replica does for them. A request is in one count.
struct Work {
  std::uint32_t prefilling = 0;  // the prompt is computed here; for a live target its backlog
  std::uint32_t parked = 0;      // prompt computed, no destination yet
  std::uint32_t outbound = 0;    // a hand-over to a destination runs
  std::uint32_t running = 0;     // decoding here
  friend bool operator==(const Work&, const Work&) = default;

  bool none() const { return prefilling == 0 && parked == 0 && outbound == 0 && running == 0; }
};

// What is counted beside the transitions; metrics.
struct StepCounts {
  std::uint64_t stale = 0;             // of another life
  std::uint64_t ignored = 0;           // means nothing in this state
  std::uint64_t refused = 0;           // commands and offers
  std::uint64_t pages_reconciled = 0;  // were accounted and belonged to nobody
  friend bool operator==(const StepCounts&, const StepCounts&) = default;
};

struct ReplicaState {
  ReplicaLife life{};
  bool lost = true;  // no process, or its lease has run out
  Role role = Role::kNone;
  Params params{};
  Admission admission = Admission::kClosed;
  Assist assist = Assist::kNone;
  ReplicaLife assisted{};  // donor: its target
  Drain drain{};
  Ingress ingress{};
  Work work{};
  std::uint32_t pages = 0;  // KV pages that its requests may come to hold
  // Since when it is warm (no role, parameters resident) or loads live.
  TimePoint since{};
  StepCounts counts{};
  friend bool operator==(const ReplicaState&, const ReplicaState&) = default;

  bool idle() const { return work.none() && ingress.inbound == 0; }
  bool takes_prompts() const { return computes_prompts(role); }
  bool decodes() const { return generates(role); }
};

struct ReplicaConfig {
  std::uint32_t layers = 32;
  std::uint32_t pages_max = 8000;
  std::uint32_t prefill_slots = 1;  // requests, or batches, whose prompts are computed at a time
  std::uint32_t ingress_slots = 4;  // concurrent hand-overs to this replica
  std::chrono::milliseconds warm_ttl{1'500};
  std::chrono::milliseconds migrate_grace{5'000};  // between the two deadlines of a drain
};

// How many requests a live target may hold: it is slow while it has few layers, and must not empty the queue.
// max(2, 4 - elapsed / 200 ms), BlitzScale's constants.
std::uint32_t live_backlog_max(std::chrono::milliseconds since_load_began);

// BlitzScale's names of worker states. Its six marks of busy links are names of link_ledger.h; kNormal is that of its
// deployment files for a replica that has both roles.
enum class BlitzName : std::uint8_t {
  kInactive,
  kLoadingPrefill,
  kLoadingDecode,
  kPrefill,
  kNewPrefill,
  kRefractoryPrefill,
  kOldPrefill,
  kDecode,
  kMutatingToDecode,  // decode that still has prompts of its time as prefill
  kAusDecode,         // decode that is no destination at the moment
  kAusPrefill,        // prefill that still has sequences of its time as decode
  kShuttingPrefill,
  kShuttingDecode,
  kShuttingNull,
  kNormal,
};
BlitzName blitz_name(const ReplicaState& state);
std::string_view name_of(BlitzName name);
std::string_view name_of(Role role);
std::string_view name_of(Residency residency);
std::string_view name_of(SourceTier tier);
std::string_view name_of(Admission admission);
std::string_view name_of(Assist assist);
std::string_view name_of(DrainPhase phase);

// Whether somebody computes prompts and somebody generates. Errors: kInvalidArgument, which names what nobody would do.
Status check_roles(std::span<const Role> roles);

// Which combinations of regions may be. Errors: kInternal, which names the regions that contradict each other.
Status check(const ReplicaState& state, const ReplicaConfig& config);

}  // namespace coxswain::fleet
