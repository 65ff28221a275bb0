#include "fleet/snapshot.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace coxswain::fleet {

std::string_view name_of(Presence presence) {
  static constexpr std::array<std::string_view, 4> kNames{
      "absent", "starting", "present", "ending"};
  return kNames.at(static_cast<std::size_t>(presence));
}

bool is_empty(const ReplicaStatus& replica) {
  return replica.n_stays + replica.n_arriving + replica.n_leaving == 0;
}

bool is_warm(const ReplicaStatus& replica) {
  return replica.drain.phase != DrainPhase::kNo && is_empty(replica);
}

ReplicaView view_of(std::size_t index,
                    const ReplicaStatus& replica,
                    const ReplicaPlace& place,
                    TimePoint now) {
  ReplicaView out;
  out.life = {.replica = static_cast<ReplicaId>(index), .incarnation = replica.incarnation};
  switch (place.presence) {
    case Presence::kAbsent:
      out.lost = place.up || now < place.blocked_until;  // up: what ended is still connected
      return out;
    case Presence::kEnding:
      out.lost = true;
      return out;
    case Presence::kStarting:
      out.residency = Residency::kLoading;
      out.role = place.role;
      out.load_ends = place.start_ends;
      return out;
    case Presence::kPresent:
      break;
  }
  out.residency = Residency::kResident;
  out.lost = !place.up;
  out.used_blocks = used_blocks(replica);
  out.former_role = replica.role;
  if (is_warm(replica)) return out;
  out.role = replica.role;
  out.draining = replica.drain.phase != DrainPhase::kNo;
  return out;
}

std::uint32_t used_blocks(const ReplicaStatus& replica) {
  return is_empty(replica) ? 0 : replica.stats.blocks_leased;
}

std::uint64_t used_blocks(const FleetStatus& status) {
  std::uint64_t sum = 0;
  for (const ReplicaStatus& replica : status.replicas) sum += used_blocks(replica);
  return sum;
}

Snapshot snapshot_of(TimePoint now,
                     const FleetStatus& status,
                     const FleetLoad& load,
                     const LoadHistory& history,
                     std::span<const ReplicaPlace> places) {
  Snapshot out;
  out.now = now;
  for (std::size_t i = 0; i < places.size(); ++i)
    out.replicas.push_back(view_of(i, status.replicas[i], places[i], now));
  out.waiting_tokens = load.waiting_tokens;
  out.n_waiting = status.n_waiting;
  const LoadTrend trend = history.trend();
  out.arriving_tokens_per_s = trend.tokens_per_s;
  out.arriving_slope = trend.slope;
  out.peak_blocks = history.peak_blocks();
  out.peak_tokens_per_s = history.peak_tokens_per_s();
  out.ttft = load.latencies.ttft;
  out.itl = load.latencies.itl;
  return out;
}

PlannerConfig measured(const PlannerConfig& config,
                       const Measured& what,
                       const FleetStatus& status,
                       const FleetLoad& load) {
  PlannerConfig out = config;
  if (what.prefill && load.prompt_token_s > 0.0)
    out.tokens_prefilled_per_s = 1.0 / load.prompt_token_s;
  if (what.transfer && load.transfer_token_s > 0.0)
    out.tokens_transferred_per_s = 1.0 / load.transfer_token_s;
  std::uint32_t n_blocks = 0;
  for (const ReplicaStatus& replica : status.replicas)
    n_blocks = std::max(n_blocks, replica.stats.blocks_total);
  if (n_blocks > 0) out.blocks_per_replica = n_blocks;
  // As if it were read from memory: what counts is how long it takes.
  out.parameter_bytes = what.start_s * out.host_bytes_per_s;
  return out;
}

}  // namespace coxswain::fleet
