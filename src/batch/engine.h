#pragma once
// Engine: the batch manager's loop. One thread owns all sequences of one replica and turns requests into step plans.
//
// One pass: take new requests and cancels -> plan and submit -> apply the result of the oldest step -> events ->
// state. With look-ahead the host prepares step k+1 while k runs. docs/engine.md is the contract: ids,
// owners, order of calls, invariants.
//
// Guarantees: every sequence of an accepted request gets events in order, exactly one of them final, and nothing after
// it. The id of a request is free again just before the last of its final events. Sequences wait, run, pause and fail
// each for itself; a cancel, and a client that does not read, end all of them. The final
// event leaves as soon as the end is known, also while a step runs or hangs: a deadline is looked at when it passes, a
// cancel within 10 ms. A cancelled request is in no plan that is submitted after the notice was read (law 3). Idle
// waits on a condition variable.
//
// Thread rule: all methods of Engine from any thread; sinks are called by the engine thread and must not block.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/beam_params.h>
#include <coxswain/capacity_policy.h>
#include <coxswain/kv_layout.h>
#include <coxswain/retention.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "batch/engine_observer.h"
#include "batch/engine_stats.h"

namespace coxswain::batch {

class AttachmentSlots;
class BlockTier;

// How prompts share what a step has for them.
enum class ChunkingPolicy : std::uint8_t {
  kFirstComeFirstServed,  // the first takes all that it can use
  kEqualProgress,         // one unit (chunk_tokens_unit) each in turn, as long as there is room
  kWholePrompts,  // none is divided that fits into a step; it waits for one that has the room
};

// The least tokens of a step, by what prevails in the requests that finished last.
struct DynamicTokensMin {
  std::uint64_t prompts = 8192;  // more than two prompt tokens for each new one
  std::uint64_t balanced = 4096;
  std::uint64_t answers = 2048;  // at least two new tokens for each of a prompt
};

// Limits that follow the requests that finished last (dynamic_batch.h). They lower batch_size_max and
// prefill_tokens_max, never raise them.
struct DynamicBatchOptions {
  bool tunes_batch_size = false;
  bool tunes_tokens = false;
  std::uint32_t window_requests = 128;
  // {below so many sequences that the cache has room for, the batch size}, ascending. TensorRT-LLM's.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> batch_sizes{
      {144, 128}, {336, 256}, {672, 512}, {832, 768}, {1280, 1024}, {1664, 1536}};
  DynamicTokensMin tokens_min = {};
};

struct EngineOptions {
  CapacityPolicy policy = CapacityPolicy::kAdaptive;
  std::uint32_t batch_size_max = 256;  // sequences in one step (--max-batch-size)
  // Prompt tokens in one step (--max-batch-prefill-tokens).
  std::uint32_t prefill_tokens_max = 4096;
  // Of these, what is left to prompts however many sequences decode (--prefill-tokens-min); at least one block.
  std::uint32_t prefill_tokens_min = 64;
  // The time between two tokens of a sequence that decodes is kept below this while prompts are computed beside it, by
  // fewer prompt tokens in a step (--target-itl-ms; batch/step_cost.h). 0 = off. One block of a prompt goes with each
  // step all the same, and prefill_tokens_min does not count. Only where the runner plans chunks.
  std::chrono::milliseconds target_itl{0};
  // Chunks of prompts, where the runner plans them. One that does not end its prompt is a multiple of the unit, in
  // whole blocks (rounded up; 0: one), or of what a step or a row has room for.
  ChunkingPolicy chunking = ChunkingPolicy::kFirstComeFirstServed;
  std::uint32_t chunk_tokens_unit = 0;
  // Of one prompt in a step, at least a block; 0 = what the step has.
  std::uint32_t chunk_tokens_max = 0;
  // While a prompt can be computed a step computes prompts alone, and those who decode wait. For runners that select
  // the rows of a step.
  bool prompts_first = false;
  DynamicBatchOptions dynamic_batch = {};
  // Upper bound on tokens held, 0 = the KV cache (--max-batch-total-tokens).
  std::uint32_t batch_total_tokens_max = 0;
  // Used only where the runner cannot plan chunks: what waits interrupts those who decode when it is so many of them,
  // or when they got so many tokens since the last time (docs/scheduling.md).
  float waiting_served_ratio = 0.3F;
  std::uint32_t waiting_tokens_max = 20;
  std::uint32_t queue_requests_max = 1024;
  // Of all that wait, paused ones included (waiting_tokens() in sequence.h); 64 MiB.
  std::size_t queue_tokens_max = std::size_t{16} << 20;
  // Bytes of one plan as plan_size.h weighs them, so that none outgrows a message of 64 MiB: of the sequences that it
  // introduces, and of its rows. What does not fit goes with the next plan; a request larger than the first is refused.
  std::size_t plan_new_bytes_max = std::size_t{40} << 20;
  std::size_t plan_rows_bytes_max = std::size_t{16} << 20;
  std::uint32_t overtakes_max = 128;  // how often a waiting request may be overtaken
  bool prefix_caching = true;
  // The beginning of a cached block is copied where the rest of it differs, if the runner moves blocks.
  bool partial_reuse = true;
  // A sink that stays stalled so long is cancelled.
  std::chrono::milliseconds stall_timeout{30'000};
  // A running sequence whose sink stays stalled so long is paused, whatever the policy: others get its place in the
  // batch and its blocks. Shorter than stall_timeout, or it never happens; not where the runner cannot pause.
  std::chrono::microseconds sequence_idle_max{180'000'000};
  // The final event waits until no step in flight names the request's blocks: whoever reads it knows that they are
  // free. It then comes a step later if the request ends while a step runs ahead, and not at all while a step hangs.
  bool final_after_retire = false;
  // Where blocks are kept that the KV cache may lose; null = nowhere. Of one engine at a time.
  std::shared_ptr<BlockTier> tier = {};
  // Blocks of a lower priority (Retention), and what follows them in their sequence, are not kept there.
  std::uint32_t tier_priority_min = 0;
  bool check_invariants = false;  // after every step; tests and debug builds
};

// What an engine keeps of a request that was to compute its prompt alone: the whole blocks of it, leased for whoever
// goes on (handover.h).
struct ParkedContext {
  // Of the engine (block_transfers.h); 0: nothing is kept, the prompt is computed again.
  std::uint64_t hold = 0;
  std::uint64_t incarnation = 0;  // of its runner: RunnerInfo::epoch
  // Of the tokens in these blocks and all else that decides what they hold.
  std::uint64_t digest = 0;
  std::uint32_t n_blocks = 0;
  // Not 0: the first so many layers alone have been computed, of all positions in the blocks. What the next layer reads
  // of these is the attachment `hidden` of the runner; whoever goes on computes the other layers.
  std::uint32_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint32_t piece_blocks = 0;                // of an attachment
  std::uint32_t attachments_max = 1;             // that leave the runner at once
  std::vector<std::uint32_t> first_blocks = {};  // per KV group, behind what has left its window
  std::shared_ptr<const KvLayout> layout = {};
  TimePoint until{};  // given back then
  // Where they leave it, of `hold` alone.
  std::shared_ptr<StepRunner> runner = {};
  std::shared_ptr<AttachmentSlots> slots = {};
};

// Tokens of a request as they appear. Plain values, moved to the sink.
struct TokenEvent {
  std::uint32_t sequence = 0;  // which one of the request: 0 to n_answers() - 1
  std::vector<OutputToken> tokens;
  bool whole = false;  // `tokens` is all that there is, in the place of what came before
  std::vector<PromptToken> prompt;  // once, before the first token, if asked for
  // If asked for, else null: of the context as `prompt`, of the generation a row for each of `tokens`.
  std::shared_ptr<SequenceOutputs> outputs;
  double cumulative_logprob = 0.0;  // of all tokens so far, these included
  // Set on the last event of a sequence, together with either `finish` or a failed `status`.
  bool final = false;
  Status status;
  std::optional<SequenceFinish> finish;
  // On the final event of a request with context_only that its first token did not finish, in the place of `finish`.
  std::shared_ptr<const ParkedContext> parked;
  // On the final event:
  std::uint32_t n_generated = 0;
  DraftCounts drafts = {};
  // So far:
  std::uint32_t n_cached_prompt_tokens = 0;  // taken from the prefix cache
  TimePoint queued_at{};
  TimePoint scheduled_at{};    // first time in a plan; equal to queued_at if never
  TimePoint first_token_at{};  // of this engine, where the request has had progress elsewhere
};

class TokenSink;

struct SinkEvent {
  std::shared_ptr<TokenSink> sink;
  TokenEvent event;
};

// Where the events of several sinks go together: what one step yields for them arrives in one call, so that whoever
// queues them takes a lock once a step and not once a row.
class EventOutlet {
 public:
  virtual ~EventOutlet() = default;
  // Those of one sink in order. The events may be moved from. The rules of TokenSink::on_event() hold.
  virtual void on_events(std::span<SinkEvent> events) = 0;
};

class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void on_event(TokenEvent event) = 0;
  // Not null: an engine hands events to the outlet instead of on_event(). The same one for the life of the sink.
  virtual EventOutlet* outlet() { return nullptr; }
  // True while the client reads too slowly: the engine plans no further rows for the request until it is false again.
  // Asked of running requests in each pass, of paused ones every 10 ms, of others never.
  virtual bool stalled() const { return false; }
};

// Fields of a GenerationRequest as a Status names them in field(). Messages speak of the engine's own terms; whoever
// has another name for the field, or another sentence, puts it in the message's place.
inline constexpr std::string_view kPromptField = "prompt";
inline constexpr std::string_view kMaxNewTokensField = "max_new_tokens";
inline constexpr std::string_view kDraftField = "draft";
inline constexpr std::string_view kSequencesField = "n";
inline constexpr std::string_view kBeamsField = "beams";
inline constexpr std::string_view kProgressField = "progress";
inline constexpr std::string_view kContextOnlyField = "context_only";

// Of an earlier life of the request in another engine: ids that were generated and delivered there, none of which ended
// it. Those whose text a stop string held back (request/stop_holdback.h) were not delivered, and come again.
struct Progress {
  std::vector<TokenId> ids = {};
  double cumulative_logprob = 0.0;  // of all of them

  bool empty() const { return ids.empty(); }
};

// What validate() has proven: ids in range, lengths within limits, parameters legal.
struct GenerationRequest {
  RequestId id{};
  std::vector<TokenId> prompt;
  std::vector<TokenId> draft = {};  // as in SequenceSpec
  SamplingParams sampling;
  StoppingParams stopping;
  bool prompt_logprobs = false;  // skips the prefix look-up, publishes its own blocks
  OutputParams outputs = {};     // those of the context skip it, too
  // The sequence goes on behind these, bit for bit as if they had come from this engine. Events hold what follows: what
  // was asked for of the prompt left with the first token, then, and does not come again. n_generated and
  // cumulative_logprob count them, stopping.max_new_tokens is the whole request's. One sequence alone, no beams; of a
  // runner that takes ids.
  Progress progress = {};
  // The prompt alone is computed: the request ends with the first token behind it (and behind its progress), and its
  // blocks stay leased for so long (TokenEvent::parked). One sequence, no beams; of a runner that takes ids.
  std::optional<std::chrono::milliseconds> context_only = {};
  // With context_only: told of the whole blocks at the front of a prompt whose first token is still to come, each time
  // that a step has added some, on the engine's thread. They stay leased as those with the first token, and whoever is
  // told gives them back. Must not block.
  std::function<void(std::shared_ptr<const ParkedContext>)> on_blocks_ahead = {};
  // A hold of this engine's BlockTransfers that ends when the request is admitted, or ends: what it begins behind.
  std::uint64_t adopted_hold = 0;
  std::string adapter_digest;       // of its content, as in SequenceSpec; empty = base weights
  std::uint32_t adapter_pages = 0;  // of RunnerInfo::adapter_pages, taken once by all who use it
  std::string cache_salt;
  // Further sequences of the same prompt, one for each of these seeds: each yields what the request alone with that
  // seed yields, bit for bit. The prompt is computed once where the runner can edit (Capabilities::moves).
  std::vector<std::uint64_t> more_seeds;
  // A width above 1: a beam search. Its n_beam_answers best answers are the request's sequences 0, 1, ..., best first,
  // whole at its end; with stream_beams the best of each step come whole, too. It takes a runner that edits, moves
  // blocks and lists candidates; it counts as `width` sequences of the batch, and as one of those that wait.
  BeamParams beams;
  std::uint32_t n_beam_answers = 1;
  bool stream_beams = false;
  Retention retention;  // of its cached blocks
  // Whether later requests find its blocks: those of the prompt (and then what follows them), those with generated
  // tokens. It finds theirs either way.
  bool cache_prompt = true;
  bool cache_generation = true;
  std::int32_t priority = 0;                // higher first; then arrival
  std::optional<TimePoint> queue_deadline;  // fails with kQueueTimeout if not scheduled by then
  std::optional<TimePoint> deadline;        // fails with kDeadline

  std::uint32_t n_sequences() const { return 1 + static_cast<std::uint32_t>(more_seeds.size()); }
  // Final events that it gets.
  std::uint32_t n_answers() const { return beams.width > 1 ? n_beam_answers : n_sequences(); }
};

class EngineCore;
// What is done on the engine thread, between two steps. It must not block.
using EngineWork = std::function<void(EngineCore&)>;

// Where requests are handed in: an engine, or what stands before several.
class RequestDoor {
 public:
  virtual ~RequestDoor() = default;

  // Errors (nothing is then owned): kResourceExhausted/kOverloaded if the queue is full; kInvalidArgument/kValidation
  // with kPromptField, kMaxNewTokensField or a field of SamplingParams if the request can never fit or the runner would
  // not take it; kFailedPrecondition if the id is in use; kUnavailable while draining or without a runner.
  virtual Status submit(GenerationRequest request, std::shared_ptr<TokenSink> sink) = 0;
  // Idempotent; unknown ids are ignored. The final event has code kCancelled.
  virtual void cancel(RequestId id) = 0;
};

class Engine : public RequestDoor {
 public:
  // Starts the engine thread. `runner` is shared with nobody while the engine lives. `observer` may be null; it is
  // not owned and outlives the engine.
  static std::unique_ptr<Engine> create(std::shared_ptr<StepRunner> runner,
                                        const EngineOptions& options,
                                        EngineObserver* observer = nullptr);
  // Cancels what is left (each gets its final event), tells the runner what it may forget and joins the thread: another
  // engine may use the runner then.
  ~Engine() override = default;

  // Why it takes no request at all now: it is drained, or has no runner.
  virtual Status accepting() const { return {}; }

  // Once, soon; of an engine that ends, while it ends. For blocks of prefixes on their way (prefix_copy.h): whoever
  // posts bounds what is under way.
  virtual void post(EngineWork work) = 0;

  virtual EngineStats stats() const = 0;
  // Status of the runner, and whether a step finished lately when there was work (watchdog).
  virtual Status healthy() const = 0;

  // Refuses new requests; true once all are answered and no step names their blocks, false when `grace` has passed.
  virtual bool drain(std::chrono::milliseconds grace) = 0;

  // A new runner after the old one was lost (new epoch): the prefix index is dropped, waiting
  // requests are served by it.
  virtual void replace_runner(std::shared_ptr<StepRunner> runner) = 0;
};

}  // namespace coxswain::batch
