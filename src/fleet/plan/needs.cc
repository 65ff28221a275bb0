// How many replicas each role needs.

#include <algorithm>
#include <cmath>

#include "fleet/plan/planner.h"

namespace coxswain::fleet {
namespace {

struct Range {
  double min = 0;
  double max = 0;
  void include(Range other) {
    min = std::max(min, other.min);
    max = std::max({max, other.max, min});
  }
};

// [amount / upper, amount / lower] of what one replica can do, rounded up. Without a lower bound the range says nothing
// about too many.
Range range_of(double amount, Bounds bounds, double of_one) {
  Range out{.min = std::ceil(amount / (bounds.upper * of_one))};
  out.max = bounds.lower > 0.0 ? std::ceil(amount / (bounds.lower * of_one)) : out.min;
  return out;
}

double seconds_until(TimePoint at, TimePoint now) {
  return std::max(0.0, std::chrono::duration<double>(at - now).count());
}

// A peer that still loads has nothing to pass on before it has received it.
double peer_load_seconds(const PlannerConfig& config, const Snapshot& snapshot, ReplicaLife peer) {
  const double takes = config.parameter_bytes / config.peer_bytes_per_s;
  const auto view = std::find_if(snapshot.replicas.begin(),
                                 snapshot.replicas.end(),
                                 [&](const ReplicaView& r) { return r.life == peer; });
  if (view->residency != Residency::kLoading) return takes;
  return std::max(takes, seconds_until(view->load_ends, snapshot.now));
}

double load_seconds(const PlannerConfig& config, const Snapshot& snapshot) {
  if (config.parameter_bytes <= 0.0 || config.executor == Executor::kStatic) return 0.0;
  if (config.executor == Executor::kBlitz) {
    const auto peers =
        rank_peers(snapshot.replicas, {.avoid_interference = config.avoid_interference});
    if (!peers.empty()) return peer_load_seconds(config, snapshot, peers.front());
  }
  bool host = config.executor == Executor::kAllCache;
  if (config.executor == Executor::kBlitz) host = !snapshot.host_copies.empty();  // it is sent
  if (config.executor == Executor::kServerless) {
    host = std::ranges::any_of(snapshot.replicas, [&](const ReplicaView& replica) {
      return replica.is_cold() && has_host_copy(snapshot, replica.machine);
    });
  }
  return config.parameter_bytes / (host ? config.host_bytes_per_s : config.disk_bytes_per_s);
}

bool counts_for(const ReplicaView& replica, Role role) {
  return !replica.lost && !replica.draining && replica.residency != Residency::kAbsent &&
         (replica.role == role || replica.role == Role::kMixed);
}

// The queue as it will be when a load that begins now has arrived: each loading replica helps from its own arrival on.
double tokens_at(const PlannerConfig& config,
                 const Snapshot& snapshot,
                 double waiting,
                 double load_s) {
  const double arriving =
      snapshot.arriving_tokens_per_s * load_s + snapshot.arriving_slope * load_s * load_s / 2.0;
  double computed = 0.0;
  for (const ReplicaView& replica : snapshot.replicas) {
    if (!counts_for(replica, Role::kPrefill)) continue;
    const bool loads = replica.residency == Residency::kLoading;
    const double from = loads ? seconds_until(replica.load_ends, snapshot.now) : 0.0;
    computed += config.tokens_prefilled_per_s * std::max(0.0, load_s - from);
  }
  return std::max(0.0, waiting + arriving - computed);
}

void decide(RoleNeed& need, Range range, std::uint32_t least, std::uint32_t most) {
  need.min = static_cast<std::uint32_t>(std::min(range.min, 1e9));
  need.max = static_cast<std::uint32_t>(std::min(range.max, 1e9));
  std::int64_t wanted = need.n;
  if (need.n < need.min) {
    wanted = (std::int64_t{need.min} + need.max + 1) / 2;
  } else if (need.n > need.max) {
    wanted = need.n - 1;
  }
  wanted = std::clamp<std::int64_t>(wanted, least, std::max(least, most));
  need.delta = static_cast<std::int32_t>(wanted - need.n);
}

void count(RoleNeed& need, const Snapshot& snapshot) {
  for (const ReplicaView& replica : snapshot.replicas) {
    if (!counts_for(replica, need.role)) continue;
    ++need.n;
    need.n_serving += replica.residency == Residency::kResident ? 1 : 0;
  }
}

// A latency above its target asks for one more, and for no one less.
void heed(Range& range,
          const RoleNeed& need,
          std::chrono::milliseconds measured,
          std::optional<std::chrono::milliseconds> target) {
  if (target && measured > *target) range.include({need.n_serving + 1.0, need.n_serving + 1.0});
}

// One less must hold the peak of the last window, with what serves by now.
void keep_for_peak(RoleNeed& need, double peak, double of_one) {
  if (need.delta < 0 && (need.n_serving - 1.0) * of_one < peak) need.delta = 0;
}

}  // namespace

bool has_host_copy(const Snapshot& snapshot, std::uint32_t machine) {
  return std::ranges::find(snapshot.host_copies, machine) != snapshot.host_copies.end();
}

PlanInputs needs_of(const PlannerConfig& config, const Snapshot& snapshot) {
  PlanInputs out;
  out.waiting_tokens = static_cast<double>(snapshot.waiting_tokens);
  out.n_waiting = snapshot.n_waiting;
  for (const ReplicaView& replica : snapshot.replicas) {
    if (replica.lost) continue;
    const double used = replica.used_blocks;
    if (replica.assist == Assist::kTarget || replica.assist == Assist::kRefractory) {
      out.waiting_tokens += used * config.block_tokens;
      continue;
    }
    if (!replica.draining) out.used_blocks += used;
    const bool prefills = replica.role == Role::kPrefill && !replica.draining;
    if (prefills && replica.assist == Assist::kNone)
      out.moving_tokens += used * config.block_tokens;
  }
  count(out.prefill, snapshot);
  count(out.decode, snapshot);
  out.load_s = load_seconds(config, snapshot);
  out.tokens_at_arrival = tokens_at(config, snapshot, out.waiting_tokens, out.load_s);

  Range prefill =
      range_of(out.tokens_at_arrival, config.prefill_backlog_s, config.tokens_prefilled_per_s);
  const Range moving =
      range_of(out.moving_tokens, config.migration_s, config.tokens_transferred_per_s);
  const double will_hold =
      out.used_blocks + config.decode_prescale * out.waiting_tokens / config.block_tokens;
  Range decode = range_of(will_hold, config.decode_occupancy, config.blocks_per_replica);
  if (!config.mixed) {
    prefill.include(moving);
    decode.include(moving);
  }
  if (!config.mixed && config.prefill_use_max > 0.0) {
    const Bounds use{.lower = config.prefill_use_max, .upper = config.prefill_use_max};
    prefill.include(range_of(snapshot.arriving_tokens_per_s, use, config.tokens_prefilled_per_s));
  }
  if (out.waiting_tokens > 0.0 || out.n_waiting > 0) {  // from zero, too
    prefill.include({1.0, 1.0});
    decode.include({1.0, 1.0});
  }
  heed(prefill, out.prefill, snapshot.ttft, config.target_ttft);
  heed(decode, out.decode, snapshot.itl, config.target_itl);
  if (config.mixed) {
    prefill.include(decode);
    out.prefill.role = Role::kMixed;
  }
  decide(out.prefill, prefill, config.prefill_min, config.prefill_max);
  if (!config.mixed) decide(out.decode, decode, config.decode_min, config.decode_max);
  keep_for_peak(out.prefill, snapshot.peak_tokens_per_s, config.tokens_prefilled_per_s);
  RoleNeed& holder = config.mixed ? out.prefill : out.decode;
  keep_for_peak(holder,
                static_cast<double>(snapshot.peak_blocks),
                config.decode_occupancy.upper * config.blocks_per_replica);
  return out;
}

}  // namespace coxswain::fleet
