#pragma once
// Sequence: one request on its way through the engine. Owned by the engine thread, touched by nobody else.
//
//            admit             pause
//   kWaiting ----> kRunning <---------> kPaused
//       |             |       resume       |
//       '-------------+--------------------'
//                     |  end(): finished, failed or cancelled; in no further plan
//                     v
//                  kEnding ----> gone
//
// kWaiting: never in a plan; owns nothing.
// kRunning: holds a lease.
// kPaused: holds none. A row submitted before may still be in flight: its token counts, and the
//   sequence is resumed only when it is there, from position 0 or the end of a cached prefix.
// kEnding: holds none; results of rows in flight are dropped. The final event leaves at the beginning of this
//   state, or at its end (final_after_retire): when the last submitted step that names the sequence has retired.
//
// Positions: tokens holds the prompt and everything produced. Rows for [0, planned) are submitted, those
// for [0, computed) have retired. A sampling row in flight counts in n_pending: its tokens are not known
// here, but the runner has them, so the next row continues behind them. A pending row may yield and compute
// up to n_pending_extra positions more than the one that is counted here: planned is then a lower bound,
// and moves when the result is there.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/stats.h>
#include <coxswain/types.h>

#include "base/numbers.h"
#include "batch/beam_group.h"
#include "batch/engine.h"
#include "kvcache/kv_cache.h"
#include "request/draft_room.h"

namespace coxswain::batch {

enum class SequenceState : std::uint8_t { kWaiting, kRunning, kPaused, kEnding };
// How a sequence that waits is ordered: behind what is less.
enum class Turn : std::uint8_t {
  kNext,       // overtaken too often: nobody passes it any more
  kByArrival,  // whom only a sequence passes that fits where it does not
  kByLength,   // shorter prompts go first
};
enum class Outcome : std::uint8_t { kFinished, kFailed, kCancelled };

// What a request holds while it waits, in tokens of 4 bytes: its ids, and the bytes of all else that it brought.
inline std::size_t waiting_tokens(const GenerationRequest& request, std::size_t n_ids) {
  std::size_t n_bytes = request.adapter_digest.size() + request.cache_salt.size() +
                        request.sampling.logit_bias.size() * sizeof(std::pair<TokenId, float>) +
                        (request.stopping.end_ids.size() + request.draft.size() +
                         request.sampling.allowed_tokens.size()) *
                            sizeof(TokenId) +
                        request.sampling.grammar.size();
  for (const std::string& text : request.sampling.dry_sequence_breakers) n_bytes += text.size();
  for (const auto* sequences :
       {&request.sampling.bad_words, &request.stopping.stop_token_sequences})
    for (const std::vector<TokenId>& ids : *sequences) n_bytes += ids.size() * sizeof(TokenId);
  n_bytes += request.retention.ranges.size() * sizeof(RetentionRange);
  for (const std::string& stop : request.stopping.stop_sequences) n_bytes += stop.size();
  return n_ids + (n_bytes + sizeof(TokenId) - 1) / sizeof(TokenId);
}

struct Sequence;

// What the sequences of one request share.
struct Siblings {
  std::vector<Sequence*> open;  // not yet answered, by index
  // If asked for: of the one that has computed the prompt first.
  bool has_prompt = false;
  std::vector<PromptToken> prompt;
  SequenceOutputs context;
};

// Bytes of what OutputParams ask for: all that the request may be given, as the reader may leave it lying.
inline std::uint64_t output_bytes(const RunnerInfo& info,
                                  const GenerationRequest& request,
                                  std::uint64_t n_prompt) {
  const OutputParams& outputs = request.outputs;
  const std::uint64_t n_new = request.stopping.max_new_tokens;
  std::uint64_t n = 0;
  if (outputs.context_logits) n += n_prompt * info.vocab_size;
  if (outputs.context_hidden) n += n_prompt * info.hidden_size;
  if (outputs.generation_logits) n += n_new * info.vocab_size;
  if (outputs.generation_hidden) n += n_new * info.hidden_size;
  return request.n_sequences() * n * sizeof(float);
}

// First what every step reads of every sequence that runs, so that it lies together.
struct Sequence {
  SequenceId id{};
  std::uint64_t arrival = 0;  // counts up
  SequenceState state = SequenceState::kWaiting;
  Turn turn = Turn::kByArrival;
  bool known_to_runner = false;
  bool stalled = false;
  bool tier_asked = false;  // for what the cache does not have of it
  bool onboarding = false;  // waits for that
  // Something of each of its prompt's positions is wanted: none may come from the prefix cache.
  bool wants_prompt = false;
  bool wants_more = false;  // that, or outputs of what it generates
  bool prompt_sent = false;
  bool answered = false;  // its final event has left, and the sink with it
  std::uint32_t n_prompt = 0;
  // request.stopping.max_new_tokens, or up to the token that ends context_only.
  std::uint32_t n_new_max = 0;
  std::uint32_t n_spare = 0;  // positions for drafts behind these, where tables do not grow
  std::uint32_t planned = 0;
  std::uint32_t computed = 0;
  std::uint32_t n_found = 0;      // positions that its lease began with
  std::uint32_t n_in_flight = 0;  // submitted steps that name it and have not retired: 0..2
  std::uint32_t n_pending = 0;    // of these, sampling rows: 0..2
  std::uint32_t n_pending_extra = 0;
  std::uint32_t index = 0;      // of the request's sequences
  std::vector<TokenId> tokens;  // prompt, then output
  kvcache::KvLease lease;
  std::vector<std::uint32_t> table_sent;  // per KV group: entries the runner has
  std::shared_ptr<TokenSink> sink;
  std::optional<TimePoint> stalled_since;
  TimePoint last_token_at{};
  std::uint64_t last_token_step = 0;
  std::uint32_t n_token_steps = 0;  // that yielded tokens
  double cumulative_logprob = 0.0;
  BlockUse block_use;
  std::unique_ptr<BeamGroup> beams;  // null: no beam search

  std::shared_ptr<Siblings> siblings;  // null: the request has one sequence
  GenerationRequest request;           // its prompt has moved to `tokens`
  std::string identity;  // of its cached prefixes: adapter, salt, rope variant, kernel set
  kvcache::PrefixMemo prefix_memo;   // while it waits: what was found for it in the cache
  std::size_t n_waiting_tokens = 0;  // as it began to wait
  // As it left the waiting queue, and of a paused one now: admissions of later arrivals while it waited.
  std::uint32_t overtaken = 0;
  std::uint32_t n_cached_prompt_tokens = 0;
  DraftCounts drafts;
  TimePoint queued_at{};
  TimePoint scheduled_at{};
  TimePoint first_token_at{};
  std::uint64_t first_token_step = 0;      // 0 = none yet
  std::uint64_t ended_step = 0;            // the step that was applied last when it ended
  std::uint64_t told_step = 0;             // the last one whose statistics name it with a row
  std::vector<PromptToken> prompt_tokens;  // as far as computed, if asked for, as the next
  SequenceOutputs context_outputs;
  std::uint32_t n_context_outputs = 0;   // positions
  std::uint32_t n_blocks_told = 0;       // of GenerationRequest::on_blocks_ahead
  Outcome outcome = Outcome::kFinished;  // kEnding only, as what follows
  TokenEvent final_event;

  std::uint32_t n_produced() const { return static_cast<std::uint32_t>(tokens.size()) - n_prompt; }
  // Positions that must be computed before the next token can be sampled.
  std::uint32_t context_end() const {
    return static_cast<std::uint32_t>(tokens.size()) + n_pending;
  }
  std::uint32_t remaining() const { return context_end() - planned; }
  // The most positions it will ever hold: the last token is never computed.
  std::uint32_t tokens_max() const { return n_prompt + n_new_max - 1 + n_spare; }
  // False once the samples in flight reach max_new_tokens.
  bool goes_on() const { return n_produced() + n_pending < n_new_max; }
  // Beams wait for what the step in flight lists.
  bool wants_row() const { return goes_on() && (beams == nullptr || n_pending == 0); }
  bool decoding() const { return planned > 0 && (n_pending > 0 || remaining() == 1); }
  // How many tokens beyond one its next decode row may yield: never more than max_new_tokens in all. The room for
  // what a grammar forces stays in a block, so that plans need no more for it; a stock shard has no use for it.
  std::uint32_t draft_tokens(const Capabilities& can, std::uint32_t block_tokens) const {
    const bool may_force = can.takes_ids && static_cast<bool>(request.sampling.grammar);
    const std::uint32_t room = request::draft_room(can.draft_tokens_max, may_force);
    const std::uint32_t n_max = std::max(can.draft_tokens_max, std::min(room, block_tokens - 1));
    const std::uint32_t next = n_produced() + n_pending + 1;
    return n_max == 0 || next >= n_new_max || beams != nullptr ? 0
                                                               : std::min(n_max, n_new_max - next);
  }
  // How much of the prompt it can share with a sibling that has computed it: one position is always its own.
  std::uint32_t shared_prompt() const {
    return std::min(n_prompt, static_cast<std::uint32_t>(tokens.size()) - 1);
  }
  // Whether siblings can begin behind its prompt: a row of it has been computed, and with it what the row has copied.
  bool has_computed_prompt() const {
    return state == SequenceState::kRunning && computed >= n_prompt && computed > n_found;
  }
  // How many of the batch it counts as.
  std::uint32_t n_places() const { return beams != nullptr ? request.beams.width : 1; }
  // Entries of its tables. Those of beams count for each that names them: what they need more is a difference of these.
  std::uint32_t n_blocks() const {
    return lease.n_blocks() + (beams != nullptr ? beams->n_more_blocks() : 0);
  }
  // Of these, how many have left the window of the group.
  std::uint32_t n_released(std::size_t group) const {
    return lease.n_released(group) + (beams != nullptr ? beams->n_more_released(group) : 0);
  }
  // Of all entries, when each of its tables has `n`.
  std::uint32_t n_blocks_at(std::uint32_t n) const {
    return n * (beams != nullptr ? beams->n_slots() : 1);
  }
  // Beams that it does not have, or not yet: they come as forks.
  std::uint32_t n_beams_to_come() const {
    return beams != nullptr ? n_places() - beams->n_slots() : 0;
  }
  // How many blocks it will take until its tables have `n`, from `n_held` in all on. Beams to come share what is whole
  // of the prompt.
  std::uint32_t n_blocks_to(std::uint32_t n,
                            std::uint32_t n_held,
                            std::uint32_t block_tokens) const {
    return base::sub_sat(n_blocks_at(n), n_held) +
           n_beams_to_come() * base::sub_sat(n, n_prompt / block_tokens);
  }
  // What the cache may show to others ends here.
  std::uint32_t publish_end() const {
    if (!request.cache_prompt) return 0;
    return request.cache_generation && beams == nullptr ? UINT32_MAX : n_prompt;
  }
  kvcache::RetentionRule retention_rule() const {
    const Retention& said = request.retention;
    const bool any = !said.ranges.empty() || said.decode_priority;
    return {.retention = any ? &said : nullptr, .n_prompt = n_prompt};
  }
  bool prompt_complete() const {
    return prompt_sent || ((!request.prompt_logprobs || prompt_tokens.size() >= n_prompt) &&
                           (!request.outputs.any_context() || n_context_outputs >= n_prompt));
  }
};

}  // namespace coxswain::batch
