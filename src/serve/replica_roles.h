#pragma once
// Roles of replicas, as --roles names them: "prefill=1,decode=1" and the rest mixed.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::serve {

// What a replica computes: prompts, what follows them, or both.
enum class ReplicaRole : std::uint8_t { kMixed, kPrefill, kDecode };

std::string_view name_of(ReplicaRole role);

// The roles of `n_replicas`, those that are named first, in the order of the text. Errors: kInvalidArgument, naming the
// part of the text that is wrong, or both numbers where more replicas are named than there are.
Result<std::vector<ReplicaRole>> parse_roles(std::string_view text, std::size_t n_replicas);

}  // namespace coxswain::serve
