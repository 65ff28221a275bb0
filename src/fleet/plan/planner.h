#pragma once
// The planner of a fleet: from a snapshot of all replicas to decisions, each with the inputs that it was made from.
//
// How many replicas a role needs follows BlitzScale (OSDI '25): a prompt backlog in seconds, KV occupancy, and the time
// that KV needs to move, each with an upper bound below which nothing is added and a lower one above which nothing is
// taken away. docs/fleet-control.md has the formulas. Beyond it: demand at the time when a load would arrive, room for
// the rate by now, measured latencies against targets, a cool-down for each direction, limits of loads and of changes,
// scaling from zero.
//
// plan() is pure: the same snapshot, memory and constants give the same decisions. It commands; replicas may refuse
// (replica_step.h), and the next snapshot shows what has become of it. Thread rule: none.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

#include "fleet/plan/sources.h"
#include "fleet/state/replica_events.h"

namespace coxswain::fleet {

// What is compared: ours; a cache in host memory with a keep-alive, then disk, no live loading (ServerlessLLM's way);
// host memory always (the best such a cache can do); no scaling.
enum class Executor : std::uint8_t { kBlitz, kServerless, kAllCache, kStatic };
std::string_view name_of(Executor executor);

struct Bounds {
  double lower = 0.0;
  double upper = 0.0;
};

// Defaults are BlitzScale's, where it has the constant.
struct PlannerConfig {
  Executor executor = Executor::kBlitz;
  // A fleet without split roles: every replica does both, and takes the larger need.
  bool mixed = false;
  Bounds prefill_backlog_s{0.15, 0.4};  // time to compute the waiting prompts
  // Prompt tokens that arrive, of those that prefill replicas compute; 0: any. A load comes too late for a backlog.
  double prefill_use_max = 0.6;
  Bounds decode_occupancy{0.45, 0.8};  // KV blocks in use, of all
  Bounds migration_s{0.0, 2.0};  // time to move the KV of prompts; lower 0: takes nothing away
  double tokens_prefilled_per_s = 13'000;    // of one replica
  double tokens_transferred_per_s = 20'000;  // of one replica
  std::uint32_t blocks_per_replica = 8'000;
  std::uint32_t block_tokens = 64;
  std::uint32_t prefill_min = 1;  // 0: scales to zero, and from it
  std::uint32_t prefill_max = 8;
  std::uint32_t decode_min = 1;
  std::uint32_t decode_max = 8;
  // How much of a waiting prompt counts as KV that decode replicas will have to hold.
  double decode_prescale = 1.0;

  // Loads.
  double parameter_bytes = 0.0;  // 0: loads are taken to arrive at once
  double peer_bytes_per_s = 12.5e9;
  double host_bytes_per_s = 16e9;
  double disk_bytes_per_s = 1.25e9;
  bool avoid_interference = true;
  bool live = true;  // the last of each chain serves while it loads
  std::uint32_t chains_max = 8;
  std::uint32_t loads_max = 8;  // at a time

  // Damping.
  std::chrono::milliseconds up_cooldown{0};
  std::chrono::milliseconds down_cooldown{1'500};
  std::uint32_t changes_max = 32;  // decisions in changes_window
  std::chrono::milliseconds changes_window{10'000};
  std::chrono::milliseconds drain_deadline{30'000};

  // Measured latencies; empty = no target.
  std::optional<std::chrono::milliseconds> target_ttft;
  std::optional<std::chrono::milliseconds> target_itl;

  // A decode replica takes no hand-overs while it uses more than so many times the mean and so much of its blocks.
  double hold_over_mean = 2.0;
  double hold_occupancy = 0.5;
};

struct Snapshot {
  TimePoint now{};
  std::vector<ReplicaView> replicas = {};
  std::uint64_t waiting_tokens = 0;    // of prompts in the queue
  std::uint64_t n_waiting = 0;         // whatever waits in no replica, prompts or not
  double arriving_tokens_per_s = 0.0;  // of prompts
  double arriving_slope = 0.0;         // tokens per s, per s
  std::uint64_t peak_blocks = 0;       // of all replicas, over the last window
  double peak_tokens_per_s = 0.0;      // of prompts, over the last window
  std::chrono::milliseconds ttft{0};   // measured, 95th percentile; 0 = unknown
  std::chrono::milliseconds itl{0};
  std::vector<std::uint32_t> host_copies = {};  // machines
};

bool has_host_copy(const Snapshot& snapshot, std::uint32_t machine);

// What plan() needs to know of its former decisions.
struct PlannerMemory {
  TimePoint prefill_up = TimePoint::min();
  TimePoint prefill_down = TimePoint::min();
  TimePoint decode_up = TimePoint::min();
  TimePoint decode_down = TimePoint::min();
  std::vector<TimePoint> changes = {};  // within the window
};

// The figures of one role.
struct RoleNeed {
  Role role = Role::kPrefill;
  std::uint32_t n = 0;  // provisioned, loading ones included
  std::uint32_t n_serving = 0;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  std::int32_t delta = 0;
};

struct PlanInputs {
  double waiting_tokens = 0;  // queue and backlog of loading replicas
  std::uint64_t n_waiting = 0;
  // What of it is left when a load that begins now would have arrived.
  double tokens_at_arrival = 0;
  double used_blocks = 0;
  double moving_tokens = 0;  // KV of prompts that has to move
  double load_s = 0;         // of the best source
  RoleNeed prefill{};
  RoleNeed decode{.role = Role::kDecode};
};

enum class Choice : std::uint8_t {
  kCancelDrain,
  kReuseWarm,
  kMutate,
  kLoad,
  kAssist,
  kDrain,
  kHoldIngress,
  kReleaseIngress,
};
std::string_view name_of(Choice choice);

struct Decision {
  Choice choice = Choice::kLoad;
  ReplicaLife replica{};
  Event command{};  // to that replica
  std::string_view reason;
  PlanInputs inputs{};
};

struct Plan {
  std::vector<Decision> decisions = {};
  PlanInputs inputs{};
  PlannerMemory memory{};
};

Plan plan(const PlannerConfig& config, const PlannerMemory& memory, const Snapshot& snapshot);

// The needs alone.
PlanInputs needs_of(const PlannerConfig& config, const Snapshot& snapshot);

// A decision in one line, for a log and a dry run.
std::string text_of(const Decision& decision);

}  // namespace coxswain::fleet
