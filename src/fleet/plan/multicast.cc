#include "fleet/plan/multicast.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace coxswain::fleet {
namespace {

// Machines by their fastest node, nodes of a machine by bandwidth; ties by replica, so that equal inputs plan alike.
std::vector<MulticastNode> in_order(std::span<const MulticastNode> receivers) {
  std::map<std::uint32_t, double> fastest;
  for (const MulticastNode& node : receivers) {
    double& best = fastest[node.machine];
    best = std::max(best, node.bytes_per_s);
  }
  std::vector<MulticastNode> out(receivers.begin(), receivers.end());
  std::sort(out.begin(), out.end(), [&](const MulticastNode& a, const MulticastNode& b) {
    if (a.machine != b.machine) {
      const double of_a = fastest.at(a.machine);
      const double of_b = fastest.at(b.machine);
      return of_a != of_b ? of_a > of_b : a.machine < b.machine;
    }
    return a.bytes_per_s != b.bytes_per_s ? a.bytes_per_s > b.bytes_per_s : a.life < b.life;
  });
  return out;
}

void add_tails(MulticastPlan& plan) {
  for (const MulticastEdge& edge : plan.edges) {
    const bool forwards = std::any_of(plan.edges.begin(),
                                      plan.edges.end(),
                                      [&](const MulticastEdge& e) { return e.from == edge.to; });
    const bool known = std::find(plan.tails.begin(), plan.tails.end(), edge.to) != plan.tails.end();
    if (!forwards && !known) plan.tails.push_back(edge.to);
  }
}

// Receivers dealt out to the chains in runs, so that a machine stays together.
void plan_chains(MulticastPlan& plan,
                 std::span<const MulticastNode> sources,
                 const std::vector<MulticastNode>& receivers,
                 std::size_t n_chains) {
  std::size_t next = 0;
  for (std::size_t chain = 0; chain < n_chains; ++chain) {
    const std::size_t n = (receivers.size() - next) / (n_chains - chain);
    ReplicaLife from = sources[chain].life;
    for (const std::size_t end = next + n; next < end; ++next) {
      plan.edges.push_back({from, receivers[next].life, 0});
      from = receivers[next].life;
    }
  }
}

// Receivers of each machine, in order; empty if one of them has fewer than `lanes`.
std::vector<std::vector<ReplicaLife>> groups_of(const std::vector<MulticastNode>& receivers,
                                                std::uint32_t lanes) {
  std::vector<std::vector<ReplicaLife>> out;
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    if (i == 0 || receivers[i].machine != receivers[i - 1].machine) out.emplace_back();
    out.back().push_back(receivers[i].life);
  }
  const auto is_small = [lanes](const auto& group) { return group.size() < lanes; };
  if (std::any_of(out.begin(), out.end(), is_small)) out.clear();
  return out;
}

// Each lane begins at a source and a receiver of its own, so that no link carries all of them in one direction.
void plan_lanes(MulticastPlan& plan,
                std::span<const MulticastNode> sources,
                const std::vector<MulticastNode>& receivers) {
  const auto groups = groups_of(receivers, plan.lanes);
  for (std::uint32_t lane = 0; lane < plan.lanes; ++lane) {
    ReplicaLife from = sources[lane].life;
    for (const std::vector<ReplicaLife>& group : groups) {
      plan.edges.push_back({from, group[lane], lane});
      from = group[lane];
      for (std::size_t i = 1; i < group.size(); ++i) {
        const std::size_t at = lane + i;
        plan.edges.push_back(
            {group[(at - 1) % group.size()], group[at % group.size()], lane, LinkMedium::kScaleUp});
      }
    }
    for (std::size_t i = 0; groups.empty() && i < receivers.size(); ++i) {
      const ReplicaLife to = receivers[(i + lane) % receivers.size()].life;
      plan.edges.push_back({from, to, lane});
      from = to;
    }
  }
}

double bandwidth_of(std::span<const MulticastNode> nodes, ReplicaLife life, LinkMedium medium) {
  for (const MulticastNode& node : nodes) {
    if (node.life != life) continue;
    return medium == LinkMedium::kNetwork ? node.bytes_per_s : node.scale_up_bytes_per_s;
  }
  return 0.0;
}

std::uint32_t sections_of(std::span<const MulticastProgress> progress,
                          ReplicaLife node,
                          std::uint32_t lane) {
  for (const MulticastProgress& each : progress) {
    if (each.node == node && each.lane == lane) return each.sections;
  }
  return 0;
}

bool sends(const MulticastPlan& plan, ReplicaLife node) {
  return std::any_of(plan.edges.begin(), plan.edges.end(), [&](const MulticastEdge& edge) {
    return edge.from == node;
  });
}

// The first of them that is there and sends nothing in this plan; nobody if there is none.
ReplicaLife idle_source(const MulticastPlan& plan,
                        std::span<const MulticastNode> sources,
                        ReplicaLife lost) {
  for (const MulticastNode& source : sources) {
    if (source.life != lost && !sends(plan, source.life)) return source.life;
  }
  return {};
}

}  // namespace

Result<MulticastPlan> plan_multicast(std::span<const MulticastNode> sources,
                                     std::span<const MulticastNode> receivers,
                                     const MulticastOptions& options) {
  if (sources.empty()) return invalid_argument("a multicast needs a source");
  if (options.lanes == 0 || options.chains_max == 0 || options.tree_fan_out == 0) {
    return invalid_argument("lanes, chains_max and tree_fan_out must be at least 1");
  }
  if (options.lanes > sources.size()) {
    return Status(Code::kFailedPrecondition,
                  std::to_string(options.lanes) + " lanes need as many sources, given " +
                      std::to_string(sources.size()));
  }
  MulticastPlan plan{.lanes = options.lanes};
  const std::vector<MulticastNode> ordered = in_order(receivers);
  if (options.lanes > 1) {
    plan_lanes(plan, sources, ordered);
  } else if (options.shape == MulticastShape::kChain) {
    plan_chains(plan,
                sources,
                ordered,
                std::min({sources.size(), ordered.size(), std::size_t{options.chains_max}}));
  } else {
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      const bool of_source = options.shape == MulticastShape::kStar || i < options.tree_fan_out;
      const ReplicaLife from =
          of_source ? sources[0].life : ordered[i / options.tree_fan_out - 1].life;
      plan.edges.push_back({from, ordered[i].life, 0});
    }
  }
  add_tails(plan);
  return plan;
}

double multicast_seconds(const MulticastPlan& plan,
                         std::span<const MulticastNode> nodes,
                         double n_bytes,
                         double piece_bytes) {
  if (plan.edges.empty()) return 0.0;
  const double share = n_bytes / plan.lanes;
  std::map<Link, double> carried;  // seconds that each link is in use
  // Until a node has its first piece, in each lane.
  std::map<std::pair<ReplicaLife, std::uint32_t>, double> waits;
  double latest = 0.0;
  for (const MulticastEdge& edge : plan.edges) {
    const double of_sender = bandwidth_of(nodes, edge.from, edge.medium);
    const double of_receiver = bandwidth_of(nodes, edge.to, edge.medium);
    carried[{edge.from.replica, edge.medium, LinkDirection::kSend}] += share / of_sender;
    carried[{edge.to.replica, edge.medium, LinkDirection::kReceive}] += share / of_receiver;
    const double before = waits[{edge.from, edge.lane}];
    waits[{edge.to, edge.lane}] = before + piece_bytes / std::min(of_sender, of_receiver);
    latest = std::max(latest, before);
  }
  double busiest = 0.0;
  for (const auto& [link, seconds] : carried) busiest = std::max(busiest, seconds);
  return busiest + latest;
}

Result<Repair> take_out(MulticastPlan& plan,
                        ReplicaLife lost,
                        std::span<const MulticastNode> sources,
                        std::span<const MulticastProgress> progress) {
  const auto names = [lost](const MulticastEdge& edge) {
    return edge.from == lost || edge.to == lost;
  };
  if (std::none_of(plan.edges.begin(), plan.edges.end(), names)) {
    return Status(Code::kNotFound, "the plan does not name this replica");
  }
  Repair out;
  for (std::uint32_t lane = 0; lane < plan.lanes; ++lane) {
    ReplicaLife heir{};
    std::vector<ReplicaLife> receivers;
    for (const MulticastEdge& edge : plan.edges) {
      if (edge.lane != lane) continue;
      if (edge.to == lost) heir = edge.from;
      if (edge.from == lost) receivers.push_back(edge.to);
    }
    std::stable_sort(receivers.begin(), receivers.end(), [&](ReplicaLife a, ReplicaLife b) {
      return sections_of(progress, a, lane) > sections_of(progress, b, lane);
    });
    for (const ReplicaLife to : receivers) {
      if (heir == ReplicaLife{}) heir = idle_source(plan, sources, lost);
      // In the place of the former edge: behind what its sender receives, before what its receiver forwards.
      const auto at =
          std::find_if(plan.edges.begin(), plan.edges.end(), [&](const MulticastEdge& e) {
            return e.from == lost && e.to == to && e.lane == lane;
          });
      const Reattachment edge{{heir, to, lane, at->medium}, sections_of(progress, to, lane)};
      if (heir == ReplicaLife{}) {
        out.orphans.push_back(edge);
        plan.edges.erase(at);
        heir = to;
      } else {
        out.reattached.push_back(edge);
        *at = edge.edge;
      }
    }
  }
  std::erase_if(plan.edges, names);
  plan.tails.clear();
  add_tails(plan);
  return out;
}

}  // namespace coxswain::fleet
