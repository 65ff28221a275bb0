#pragma once
// The body of `POST /modify_cluster_state` in BlitzScale's wire format, as commands to replicas:
//
//   {"type": "TriggerPrefillUp", "data": {"old_stub_indices": [0], "new_stub_indices": [2]}}
//
//   TriggerMutation    stub_indices                        each: TransToDecode
//   TriggerPrefillUp   old_stub_indices, new_stub_indices  new: TransToNewPrefill; old: TransToOldPrefill, in pairs
//   TriggerDecodeUp    old_stub_indices, new_stub_indices  new: TransToDecode, loaded from old
//   TriggerNormalUp    old_stub_indices, new_stub_indices  new: loaded from old, for both roles
//   TriggerScaleDown   stub_indices                        each: Deactivate
//   TriggerNoramalDown stub_indices                        each: drained; the right spelling is taken, too
//
// Stub indices are ranks; all of a replica or its lowest name it. Thread rule: values.

#include <cstdint>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "fleet/state/replica_events.h"

namespace coxswain::fleet {

struct ClusterCommand {
  ReplicaId replica{};
  Event command{};  // of other replicas it names the place; who sends it fills in the life
};

struct ClusterLayout {
  std::uint32_t n_replicas = 0;
  std::uint32_t tensor_parallel = 1;  // ranks of each
  TimePoint drain_deadline{};         // of what is taken away
};

// Errors: kInvalidArgument, which names the member and the value: a type that is none (with the list), members that are
// missing or too many, an index that is no replica's, more old than new or a replica in both.
Result<std::vector<ClusterCommand>> parse_cluster_command(std::string_view body,
                                                          const ClusterLayout& layout);

}  // namespace coxswain::fleet
