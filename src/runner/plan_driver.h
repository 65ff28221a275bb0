#pragma once
// Test help: drives requests through any StepRunner the way a scheduler might, at random from a seed:
// batches of any composition, prompts in chunks, shared prefixes, pauses with recomputation, plans ahead.
//
// By law 1 the outcomes must not depend on any of it.
//
// Thread rule: one thread.

#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/step_runner.h>

namespace coxswain::runner {

struct DriveOptions {
  std::uint64_t seed = 1;
  // A prompt is cut into chunks of 1 to this many tokens.
  std::uint32_t chunk_tokens_max = 1U << 20;
  std::uint32_t chunk_multiple = 1;  // chunks that do not end a context are multiples of this
  std::uint32_t batch_size_max = 1u << 20;
  double include_share = 1.0;  // how likely a live sequence is in a step
  double pause_share = 0.0;    // how likely a live sequence loses its blocks before a step
  // Full blocks of other live sequences with the same tokens are taken over.
  bool share_prefixes = false;
  // Blocks that have left their group's window are given to others. Not with share_prefixes.
  bool release_windows = false;
  bool look_ahead = false;         // two plans in flight
  std::uint32_t n_draft_max = 0;   // of every row that decodes
  std::uint32_t n_forced_max = 0;  // likewise where a grammar binds the sequence, if that is more
};

struct DriveOutcome {
  Status status;
  std::vector<OutputToken> tokens;
  std::vector<PromptToken> prompt;
  SequenceOutputs outputs;  // of all steps, rows behind each other
  SequenceFinish finish;
  std::uint32_t n_shared_tokens = 0;
  std::uint32_t n_pauses = 0;
  std::uint32_t n_released_blocks = 0;
  std::uint32_t n_drafts = 0;  // tokens beyond one a row
};

// The rows of one step behind those before it.
void add_outputs(const SequenceOutputs& from, SequenceOutputs& to);

// Ids of the specs must differ. Blocks come from [1, n_blocks) of every group.
std::vector<DriveOutcome> drive(StepRunner& runner,
                                const std::vector<SequenceSpec>& specs,
                                const DriveOptions& options);

// Each request driven with no other beside it.
std::vector<DriveOutcome> drive_each_alone(StepRunner& runner,
                                           const std::vector<SequenceSpec>& specs);

// Bit equality of everything a request sees; n_* are not part of it.
bool same_outcome(const DriveOutcome& a, const DriveOutcome& b);
// same_outcome() of each pair as expectations; `what` names the run in messages.
void expect_same_outcomes(const std::vector<DriveOutcome>& expected,
                          const std::vector<DriveOutcome>& seen,
                          const std::string& what);

}  // namespace coxswain::runner
