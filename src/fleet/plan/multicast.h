#pragma once
// How the parameters of one replica reach others: who forwards to whom, and what to do when a member is lost.
//
// Links are full duplex, so in a chain each node receives and forwards at the same time, and the whole takes about one
// transfer however many receivers there are (BlitzScale, OSDI '25). A tree loads the links of its inner nodes several
// times; a star those of the source. Several chains from several sources each serve a part of the receivers. Several
// lanes each carry a part of the parameters to all: where every machine has as many receivers as there are lanes, each
// takes one in and they exchange them inside the machine, so k lanes take 1/k of the time.
//
// The parameters are sections in execution order (embedding, layers, head). A receiver's progress is a number of
// complete sections, in each lane, so a load goes on after a loss where it stopped.
//
// Pure functions. Thread rule: none.

#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/status.h>

#include "fleet/state/ids.h"
#include "fleet/state/link_ledger.h"

namespace coxswain::fleet {

enum class MulticastShape : std::uint8_t { kChain, kTree, kStar };

struct MulticastNode {
  ReplicaLife life{};
  std::uint32_t machine = 0;  // nodes of one machine stand next to each other in a chain
  // Of its links, in each direction; > 0. The second is to nodes of the same machine.
  double bytes_per_s = 1.25e9;
  double scale_up_bytes_per_s = 2.5e10;
};

struct MulticastOptions {
  MulticastShape shape = MulticastShape::kChain;
  std::uint32_t chains_max = 8;  // chain: at most one a source
  // Every lane carries 1/lanes of each section to all receivers, and has a source of its own.
  std::uint32_t lanes = 1;
  std::uint32_t tree_fan_out = 2;
};

struct MulticastEdge {
  ReplicaLife from{};
  ReplicaLife to{};
  std::uint32_t lane = 0;
  LinkMedium medium = LinkMedium::kNetwork;
  friend bool operator==(const MulticastEdge&, const MulticastEdge&) = default;
};

struct MulticastPlan {
  std::uint32_t lanes = 1;
  // A node's incoming edge stands before its outgoing ones.
  std::vector<MulticastEdge> edges = {};
  // Receivers that forward to nobody: their links are free to send activations and KV, so they can serve while loading.
  std::vector<ReplicaLife> tails = {};
};

// Sources in order of preference (sources.h), each used by one chain or lane. Receivers are ordered by falling
// bandwidth, so that a slow one does not hold up those behind it, machine by machine.
// Errors: kInvalidArgument without sources or with a fan-out, lanes or chains of 0; kFailedPrecondition if there are
// fewer sources than lanes.
Result<MulticastPlan> plan_multicast(std::span<const MulticastNode> sources,
                                     std::span<const MulticastNode> receivers,
                                     const MulticastOptions& options);

// How long it takes: the busiest link, and for each forwarding node the time of one piece.
// REQUIRES: `nodes` holds all that the plan names.
double multicast_seconds(const MulticastPlan& plan,
                         std::span<const MulticastNode> nodes,
                         double n_bytes,
                         double piece_bytes);

// Complete sections that a receiver has in a lane.
struct MulticastProgress {
  ReplicaLife node{};
  std::uint32_t lane = 0;
  std::uint32_t sections = 0;
};

// An edge that takes the place of one that was lost.
struct Reattachment {
  MulticastEdge edge{};
  std::uint32_t first_section = 0;  // what comes before it has arrived
};

// Takes a lost node out of a plan. Its receivers attach to whom it received from; those of a lost source to the first
// of `sources` that lives and, in this plan, sends nothing yet; without one to the furthest ahead of the lost source's
// receivers for the others, while that one is left without a sender (the caller asks host memory or disk).
// Errors: kNotFound if the plan does not name it.
struct Repair {
  std::vector<Reattachment> reattached = {};
  std::vector<Reattachment> orphans = {};  // edge.from is nobody
};
Result<Repair> take_out(MulticastPlan& plan,
                        ReplicaLife lost,
                        std::span<const MulticastNode> sources,
                        std::span<const MulticastProgress> progress);

}  // namespace coxswain::fleet
