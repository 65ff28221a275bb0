#pragma once
// Roles of replicas, as --roles names them: "prefill=1,decode=1" and the rest mixed.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "fleet/state/replica_state.h"
#include "options/options.h"

namespace coxswain::serve {

// Of each shard whose replica may have a role, for blocks on their way (--kv-handover-bytes-max).
inline constexpr std::uint64_t kHandoverBytes = std::uint64_t{64} << 20;

// What --roles and --disaggregation make of `n_replicas`. Errors: those of parse_roles().
Result<std::vector<fleet::Role>> roles_of(const options::OptionValues& values,
                                          std::size_t n_replicas);

// The roles of `n_replicas`, those that are named first, in the order of the text. Errors: kInvalidArgument, naming the
// part of the text that is wrong, both numbers where more replicas are named than there are, or what nobody would do.
Result<std::vector<fleet::Role>> parse_roles(std::string_view text, std::size_t n_replicas);

// What --autoscale asks of `roles` and of the planner's bounds. Errors: kInvalidArgument.
Status validate_planner(const options::OptionValues& values, const std::vector<fleet::Role>& roles);

// Whether any of them computes prompts for another one.
bool any_hands_over(const std::vector<fleet::Role>& roles);

}  // namespace coxswain::serve
