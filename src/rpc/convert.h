#pragma once
// Plans and results as protobuf messages of coxswain.engine.v1 and back, field by field.
//
// to_proto() cannot fail. from_proto() trusts nobody: an unknown enum value, a token id beyond
// 2^31-1 or a list beyond its cap is kInvalidArgument with the field named. What a plan *means* is
// checked elsewhere (plan_check.h).
//
// Thread rule: pure functions.

#include <cstddef>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain::engine::v1 {
class BlockTransfer;
class InfoResponse;
class StepPlan;
class StepResult;
class Status;
}  // namespace coxswain::engine::v1

namespace coxswain::rpc {

namespace pb = coxswain::engine::v1;

// A list element costs memory even where its bytes on the wire are few; a message is at most 64 MiB.
// New sequences, edits and dropped ones; rows.
inline constexpr std::size_t kPlanSequencesMax = 65'536;
inline constexpr std::size_t kPlanMovesMax = 1'048'576;  // moves, blocks imported and exported
inline constexpr std::size_t kPlanTableChangesMax = 1'048'576;  // over all rows
// Stop sequences, bad words, end ids and biases, over all new sequences.
inline constexpr std::size_t kPlanSequenceItemsMax = 1'048'576;
// Tokens and alternatives, over all sequences.
inline constexpr std::size_t kResultItemsMax = 4'194'304;
inline constexpr std::size_t kInfoItemsMax = 65'536;  // KV groups, layers of one, EOS ids

void to_proto(const RunnerInfo& from, pb::InfoResponse& to);
void to_proto(const StepPlan& from, pb::StepPlan& to);
void to_proto(const StepResult& from, pb::StepResult& to);
void to_proto(const Status& from, pb::Status& to);
void to_proto(const BlockTransfer& from, pb::BlockTransfer& to);

Result<RunnerInfo> from_proto(const pb::InfoResponse& from);
Result<StepPlan> from_proto(const pb::StepPlan& from);
Result<StepResult> from_proto(const pb::StepResult& from);
Result<BlockTransfer> from_proto(const pb::BlockTransfer& from);
// The failure that the message carries, or kInvalidArgument if the message itself is wrong.
Status from_proto(const pb::Status& from);

}  // namespace coxswain::rpc
