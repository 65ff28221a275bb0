#include "measure/batch_run.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/numbers.h"

namespace coxswain::measure {
namespace {

using std::chrono::nanoseconds;

std::string text_of(std::uint64_t value) {
  return std::to_string(value);
}

}  // namespace

// The last token is never computed; a runner that guesses may compute so much more.
std::uint64_t BatchRuns::blocks_of_sequence(std::uint64_t sequence_length,
                                            std::uint64_t decode_length) const {
  return base::ceil_div<std::uint64_t>(
      sequence_length + decode_length - 1 + info_.capabilities.draft_tokens_max,
      info_.block_tokens);
}

Status BatchRuns::check_room(std::uint32_t n_sequences,
                             std::uint64_t sequence_length,
                             std::uint64_t decode_length) const {
  const std::uint64_t n_tokens = sequence_length + decode_length;
  if (info_.max_total_tokens > 0 && n_tokens > info_.max_total_tokens) {
    return invalid_argument("`--sequence-length` and `--decode-length` must be at most " +
                            text_of(info_.max_total_tokens) +
                            " together, the shard's limit. Given: " + text_of(sequence_length) +
                            " and " + text_of(decode_length));
  }
  if (info_.max_input_tokens > 0 && sequence_length > info_.max_input_tokens) {
    return invalid_argument("`--sequence-length` must be at most " +
                            text_of(info_.max_input_tokens) +
                            ", the shard's limit. Given: " + text_of(sequence_length));
  }
  const std::uint64_t n_each = blocks_of_sequence(sequence_length, decode_length);
  for (const KvGroup& group : info_.kv_groups) {
    const std::uint64_t n_room = group.n_blocks > 0 ? (group.n_blocks - 1) / n_each : 0;
    if (n_sequences <= n_room) continue;
    return invalid_argument(
        "`--batch-size` must be at most " + text_of(n_room) + " for sequences of " +
        text_of(n_tokens) +
        " tokens, so many have room in the shard's KV cache. Given: " + text_of(n_sequences));
  }
  return {};
}

StepPlan BatchRuns::prefill_plan(const BatchSpec& spec) {
  StepPlan plan{.step = next_step_++, .epoch = info_.epoch};
  const auto n_prompt = static_cast<std::uint32_t>(spec.prompt.size());
  const auto n_blocks =
      static_cast<std::uint32_t>(blocks_of_sequence(n_prompt, spec.decode_length));
  sequences_.clear();
  BlockId first_block = 1;  // 0 is nobody's
  for (std::uint32_t i = 0; i < spec.n_sequences; ++i, first_block += n_blocks) {
    const SequenceId id{next_sequence_++};
    sequences_.push_back({.id = id});
    plan.new_sequences.push_back(
        {.id = id,
         .prompt = spec.prompt,
         .sampling = spec.sampling,
         .stopping = {.max_new_tokens = spec.decode_length, .ignore_eos = true},
         .rope_length = n_prompt + spec.decode_length});
    Row row{.sequence = id, .n_tokens = n_prompt, .emit = Emit::kSample};
    for (std::uint32_t group = 0; group < info_.kv_groups.size(); ++group) {
      BlockTableChange& change = row.table_changes.emplace_back();
      change.kv_group = group;
      change.blocks.resize(n_blocks);
      std::iota(change.blocks.begin(), change.blocks.end(), first_block);
    }
    plan.rows.push_back(std::move(row));
  }
  return plan;
}

StepPlan BatchRuns::decode_plan(std::vector<SequenceId> dropped) {
  StepPlan plan{.step = next_step_++, .epoch = info_.epoch, .dropped = std::move(dropped)};
  for (const Sequence& sequence : sequences_) {
    plan.rows.push_back({.sequence = sequence.id,
                         .first_position = sequence.next_position,
                         .n_tokens = 1,
                         .emit = Emit::kSample});
  }
  return plan;
}

Status BatchRuns::apply(const StepResult& result, std::uint32_t decode_length) {
  if (result.sequences.size() != sequences_.size())
    return internal_error("the shard answered for another number of sequences");
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceResult& from = result.sequences[i];
    Sequence& to = sequences_[i];
    if (!from.status.ok()) return from.status;
    if (from.sequence != to.id || from.tokens.empty())
      return internal_error("the shard gave a sequence no token");
    to.n_produced += static_cast<std::uint32_t>(from.tokens.size());
    to.finished = from.finish.has_value();
    if (to.finished != (to.n_produced >= decode_length)) {
      return internal_error("a sequence of " + text_of(decode_length) + " new tokens has " +
                            text_of(to.n_produced) + (to.finished ? " and ended" : " and goes on"));
    }
  }
  return {};
}

Result<nanoseconds> BatchRuns::time(StepPlan plan, std::uint32_t decode_length) {
  // Where each row ends, which is where the next one begins unless the result knows better.
  std::vector<std::uint32_t> ends;
  ends.reserve(plan.rows.size());
  for (const Row& row : plan.rows) ends.push_back(row.first_position + row.n_tokens);
  const TimePoint begin = Clock::now();
  COXSWAIN_ASSIGN_OR_RETURN(const StepResult result, runner_.run(std::move(plan)));
  const nanoseconds duration = Clock::now() - begin;
  COXSWAIN_RETURN_IF_ERROR(apply(result, decode_length));
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const std::uint32_t next = result.sequences[i].next_position;
    sequences_[i].next_position = next != 0 ? next : ends[i];
  }
  return duration;
}

Result<BatchTimes> BatchRuns::run(const BatchSpec& spec) {
  BatchTimes out;
  COXSWAIN_ASSIGN_OR_RETURN(out.prefill, time(prefill_plan(spec), spec.decode_length));
  for (;;) {
    std::vector<SequenceId> dropped;
    for (const Sequence& sequence : sequences_) {
      if (sequence.finished) dropped.push_back(sequence.id);
    }
    std::erase_if(sequences_, [](const Sequence& sequence) { return sequence.finished; });
    StepPlan plan = decode_plan(std::move(dropped));
    if (sequences_.empty()) {
      // Forgetting is no part of the batch.
      COXSWAIN_RETURN_IF_ERROR(runner_.run(std::move(plan)).status());
      return out;
    }
    COXSWAIN_ASSIGN_OR_RETURN(const nanoseconds step, time(std::move(plan), spec.decode_length));
    out.decode += step;
    ++out.n_decode_steps;
  }
}

}  // namespace coxswain::measure
