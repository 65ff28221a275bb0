#include "fleet/plan/sources.h"

#include <algorithm>
#include <tuple>

namespace coxswain::fleet {
namespace {

// From here on a rank is of use only if there is none below it.
constexpr int kLastResorts = 5;

// Lower is better; empty if it cannot send.
std::optional<int> rank_of(const ReplicaView& replica, const SourceOptions& options) {
  if (replica.lost || replica.sends_params) return std::nullopt;
  if (replica.residency == Residency::kLoading)
    return replica.assist == Assist::kNone ? kLastResorts + 1 : kLastResorts + 2;
  if (replica.residency == Residency::kAbsent || replica.assist != Assist::kNone)
    return std::nullopt;
  if (replica.role == Role::kNone) return 1;
  if (replica.role == Role::kPrefill) return options.avoid_interference ? kLastResorts : 0;
  if (replica.draining) return 2;
  return replica.role == Role::kDecode ? 3 : 4;
}

}  // namespace

ReplicaView view_of(const ReplicaState& state, std::uint32_t machine) {
  return {.life = state.life,
          .machine = machine,
          .lost = state.lost,
          .role = state.role,
          .residency = state.params.residency,
          .assist = state.assist,
          .draining = state.drain.phase != DrainPhase::kNo,
          .ingress_held = state.ingress.held,
          .used_blocks = state.pages};
}

std::vector<ReplicaLife> rank_peers(std::span<const ReplicaView> replicas,
                                    const SourceOptions& options) {
  std::vector<std::tuple<int, std::uint32_t, ReplicaLife>> ranked;
  for (const ReplicaView& replica : replicas) {
    const auto rank = rank_of(replica, options);
    if (options.peers && rank) ranked.emplace_back(*rank, replica.used_blocks, replica.life);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<ReplicaLife> out;
  for (const auto& [rank, used, life] : ranked) {
    if (rank < kLastResorts || rank == std::get<0>(ranked.front())) out.push_back(life);
  }
  return out;
}

std::vector<LoadSource> rank_sources(std::span<const ReplicaView> replicas,
                                     std::uint32_t machine,
                                     const SourceOptions& options) {
  std::vector<LoadSource> out;
  for (const ReplicaLife peer : rank_peers(replicas, options))
    out.push_back({SourceTier::kPeer, peer});
  const bool here = std::find(options.host_copies.begin(), options.host_copies.end(), machine) !=
                    options.host_copies.end();
  // With peers, host memory of another machine can be sent from there; without, it is of no use.
  if (here || (options.peers && !options.host_copies.empty())) {
    out.push_back({SourceTier::kHostMemory, {}});
  }
  if (options.disk) out.push_back({SourceTier::kDisk, {}});
  return out;
}

std::optional<LoadSource> next_source(std::span<const LoadSource> ranked,
                                      const LoadSource& failed) {
  const auto at = std::find(ranked.begin(), ranked.end(), failed);
  if (at == ranked.end()) return ranked.empty() ? std::nullopt : std::optional(ranked.front());
  return at + 1 == ranked.end() ? std::nullopt : std::optional(*(at + 1));
}

LoadBudget full_budget(const LoadRate& rate, TimePoint now) {
  return {rate.burst_bytes, now};
}

std::chrono::nanoseconds take_bytes(LoadBudget& budget,
                                    const LoadRate& rate,
                                    double n_bytes,
                                    TimePoint now) {
  if (rate.bytes_per_s <= 0.0) return {};
  const double passed = std::chrono::duration<double>(now - budget.at).count();
  budget.bytes = std::min(rate.burst_bytes, budget.bytes + passed * rate.bytes_per_s) - n_bytes;
  budget.at = now;
  if (budget.bytes >= 0.0) return {};
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(-budget.bytes / rate.bytes_per_s));
}

}  // namespace coxswain::fleet
