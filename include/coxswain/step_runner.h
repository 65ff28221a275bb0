#pragma once
// StepRunner: the seam between the scheduler, which knows ids and budgets, and whatever computes:
// a local model, a shard behind gRPC, or a fake in a test.
//
// A StepPlan is a ragged batch of rows, plain values only. The engine submits plan k+1 before it has read result k,
// so a row may continue behind a token that the planner does not know yet (Row::continues).
//
// Order of one step inside the runner:
//
//   drop sequences -> add new ones -> edit -> move blocks -> import blocks -> change block tables
//   -> run the rows through the layers -> sample -> export blocks
//
// The contract of both sides, with its invariants: docs/engine.md.
//
// State that a runner keeps for a sequence (penalty counts, stop matcher, partial UTF-8, grammar) is a pure function of
// its spec and output ids. A paused sequence keeps its id; to resume it the engine sends rows from position 0 (or the
// end of a cached prefix) again. The runner is the authority on the ids of a sequence: a plan repeats no prompt.
//
// Bytes that are large or made once (hidden states, exported blocks; later grammars, media, adapters) are attachments:
// they travel by attach() and take(), outside plans, and a plan names them by id.
//
// A runner refuses by name what it cannot do; its Capabilities say so before.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain {

// What a runner can do. The scheduler plans inside it; a stock TGI shard can do none of these.
struct Capabilities {
  bool plans_chunks = false;    // a prompt may be computed in several steps of any size
  bool selects_rows = false;    // any subset of the live sequences may be in a step
  bool grows_blocks = false;    // block tables may grow step by step
  bool takes_ids = false;       // prompts are token ids, not text
  bool look_ahead = false;      // Row::continues; without it at most one plan is in flight
  bool edits = false;           // StepPlan::edits
  bool layer_ranges = false;    // StepPlan::layers other than all of them
  bool attachments = false;     // attach(), take(), StepPlan::imports and exports
  bool moves = false;           // StepPlan::moves inside tier 0
  bool exports_beside = false;  // export_blocks()
  // Plans submitted and not waited for.
  std::uint32_t plans_in_flight_max = 2;
  // Row::n_draft_max: what the runner may yield beyond one token a step. Drafting is the runner's own business.
  std::uint32_t draft_tokens_max = 0;
  // Row::n_candidates; 0: Emit::kCandidates is refused.
  std::uint32_t candidates_max = 0;
  // Tiers of BlockRef that exist: 1 = the device alone.
  std::uint32_t tiers = 1;
  // Of all attachments held at once.
  std::uint64_t attachment_bytes_max = 0;
  // SamplingParams::n_top_tokens.
  std::uint32_t top_tokens_max = kTopTokensMax;
  // What OutputParams may ask for, of all requests at once; 0: nothing. Runners in this process only: of this and the
  // number above, no message tells.
  std::uint64_t output_bytes_max = 0;

  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

// Layers that share one pool of blocks and one block table per sequence.
struct KvGroup {
  enum class Kind : std::uint8_t { kFull, kWindow, kLatent, kState };
  std::vector<std::uint32_t> layers = {};
  Kind kind = Kind::kFull;
  std::uint32_t window = 0;           // tokens, for kWindow
  std::uint32_t sink_tokens = 0;      // for kWindow: the first positions, which every row sees, too
  std::uint64_t bytes_per_block = 0;  // of all layers of the group
  std::uint32_t n_blocks = 0;
  // What a block of each layer holds: keys [n_kv_heads, block_tokens, k_dim], then values [.., v_dim]. Empty and 0: not
  // told, or not the same in every layer; such a group has no KvLayout.
  std::string dtype = {};  // "float32", "bfloat16", "float16"
  std::uint32_t n_kv_heads = 0;
  std::uint32_t k_dim = 0;
  std::uint32_t v_dim = 0;

  friend bool operator==(const KvGroup&, const KvGroup&) = default;
};

struct RunnerInfo {
  std::string engine_version = {};
  std::uint64_t epoch = 0;  // drawn at random at each start; a new one means all KV is gone
  std::string model_id = {};
  std::string model_type = {};
  // Of the weights as computed with: "float32", "bfloat16", "float16", "int8" ...
  std::string dtype = {};
  std::string device_type = "cpu";
  std::string kernel_set_id = {};
  std::uint64_t model_fingerprint = 0;
  std::uint32_t vocab_size = 0;   // width of the logits
  std::uint32_t hidden_size = 0;  // width of hidden states; 0 = not told
  std::uint32_t n_layers = 0;
  std::uint32_t max_position_embeddings = 0;
  std::uint32_t max_input_tokens = 0;  // 0 = decided by the caller
  std::uint32_t max_total_tokens = 0;
  std::uint32_t block_tokens = 16;      // positions per block, a power of two
  std::vector<KvGroup> kv_groups = {};  // group 0 is the one a stock router manages
  std::vector<TokenId> eos_token_ids = {};
  // Rope whose angles depend on the length of the sequence: the limit at which the variant changes, 0 = none.
  std::uint32_t rope_switch_length = 0;
  // Above the limit every length is a variant of its own (dynamic).
  bool rope_length_is_exact = false;
  // Names that SamplingParams::logits_processor may have; of another process none.
  std::vector<std::string> logits_processors = {};
  // That the adapters of the rows of a step may take together, in pages of the runner's; 0 = no limit.
  std::uint32_t adapter_pages = 0;
  Capabilities capabilities = {};
};

// Everything about a sequence that does not change. Sent once, before its first row.
struct SequenceSpec {
  SequenceId id{};
  std::vector<TokenId> prompt = {};  // [n_prompt], n_prompt >= 1
  // Output ids of an earlier life (re-sent after a lost runner); usually empty.
  std::vector<TokenId> produced = {};
  // The output may begin like this: checked before anything that the runner itself would guess, never more than a
  // guess. Without effect where the runner makes no drafts.
  std::vector<TokenId> draft = {};
  SamplingParams sampling = {};
  StoppingParams stopping = {};
  bool prompt_logprobs = false;
  OutputParams outputs = {};
  std::uint32_t rope_length = 0;  // prompt + resolved max_new_tokens, decided once
  // Digest of the adapter's content, never its name: what is cached for one must not serve another that is loaded
  // under the same name. Empty = base weights.
  std::string adapter_digest = {};
  std::string cache_salt = {};  // part of the cache identity, as the adapter is

  friend bool operator==(const SequenceSpec&, const SequenceSpec&) = default;
};

// The table of one KV group becomes table[0, first_index) + blocks.
struct BlockTableChange {
  std::uint32_t kv_group = 0;
  std::uint32_t first_index = 0;
  std::vector<BlockId> blocks = {};

  friend bool operator==(const BlockTableChange&, const BlockTableChange&) = default;
};

// A block of a pool. Tier 0 is the device, the one that rows read and write.
struct BlockRef {
  std::uint8_t tier = 0;
  BlockId id = 0;

  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

// Keys and values of `from` are copied to `to`, in the order of the list; `from` stays as it is. Moves inside tier 0
// are done before the rows of the step run.
struct BlockMove {
  std::uint32_t kv_group = 0;
  BlockRef from = {};
  BlockRef to = {};

  friend bool operator==(const BlockMove&, const BlockMove&) = default;
};

struct LayerRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;  // exclusive; begin == end == 0 means all layers
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// Whole blocks between tier 0 and an attachment of kind kBlocks: blocks[g][i] is the i-th block of KV group g in it.
struct BlockTransfer {
  std::uint64_t attachment = 0;
  std::vector<std::vector<BlockId>> blocks = {};  // [n_kv_groups]
  // What these layers have of the blocks; the others are neither in the attachment nor touched.
  LayerRange layers = {};

  friend bool operator==(const BlockTransfer&, const BlockTransfer&) = default;
};

// Rewind and fork. `sequence` becomes the spec of `source` with the first n_output outputs of `source`, then
// `append`; what follows is what a fresh sequence of that history would give, bit for bit. source == sequence
// rewinds: the block table stays, and keys of positions that are no longer reached are written anew by later rows.
// Any other source makes `sequence` (new or not) a copy: its table is empty until a row gives it one. Sources are as
// they were before the first edit of the plan, so two sequences may change places. An edit that cannot be done drops
// `sequence`; a row that names it gets the reason.
struct SequenceEdit {
  SequenceId sequence{};
  SequenceId source{};
  std::uint32_t n_output = 0;
  std::vector<TokenId> append = {};

  friend bool operator==(const SequenceEdit&, const SequenceEdit&) = default;
};

enum class Emit : std::uint8_t {
  kNone,        // a chunk of a prompt: keys and values only
  kSample,      // the last position yields a token
  kCandidates,  // the last position yields its best candidates; which one follows is said by an edit
};

// Consecutive positions of one sequence. At most one row per sequence in a plan.
struct Row {
  SequenceId sequence{};
  // If `continues`, a lower bound.
  std::uint32_t first_position = 0;
  std::uint32_t n_tokens = 0;
  // [n_tokens], or empty: the runner has the ids. Ids that are sent must be the runner's.
  std::vector<TokenId> tokens = {};
  // Starts at the first position that the runner has not computed, whatever the plans in flight before have
  // yielded, and runs to the end of what it knows, but over at most n_tokens + n_draft_max positions.
  // n_tokens == 1, no tokens.
  bool continues = false;
  // The runner may compute and yield so many positions and tokens beyond one; the block table covers them.
  std::uint32_t n_draft_max = 0;
  std::vector<BlockTableChange> table_changes = {};
  Emit emit = Emit::kNone;
  // Log-probabilities of the prompt tokens among these positions are wanted (each given its prefix).
  bool prompt_logprobs = false;
  // What the spec's `outputs` say of the context is wanted of the prompt's positions among these.
  bool context_outputs = false;
  std::uint32_t n_candidates = 0;  // for kCandidates

  friend bool operator==(const Row&, const Row&) = default;
};

struct StepPlan {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  LayerRange layers = {};
  // Attachments of kind kHidden, float32 [sum of n_tokens of the rows, hidden_size] in the order of the
  // rows, then u64 xxh3 of these bytes: the residual stream before layers.begin (read and forgotten by
  // the step; needed if begin > 0) and, if end is not the last layer, after layers.end - 1 (made by the
  // step under this id). 0 = none. Keys and values of other layers stay as they are. Only a range that
  // ends with the last layer emits.
  std::uint64_t hidden_in = 0;
  std::uint64_t hidden_out = 0;
  std::vector<SequenceSpec> new_sequences = {};
  // Sequences whose state the runner may forget. One that it does not know is no error: those of a step that failed as
  // a whole are named again.
  std::vector<SequenceId> dropped = {};
  std::vector<SequenceEdit> edits = {};
  std::vector<BlockMove> moves = {};
  std::vector<BlockTransfer> imports = {};  // from attachments, which are forgotten then
  std::vector<BlockTransfer> exports = {};  // into attachments, made under these ids
  std::vector<Row> rows = {};

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

struct TokenAlternative {
  TokenId id = 0;
  float logprob = 0.0F;
  bool special = false;
  std::string text = {};

  friend bool operator==(const TokenAlternative&, const TokenAlternative&) = default;
};

struct OutputToken {
  TokenId id = 0;
  float logprob = 0.0F;  // log-softmax of the processed scores
  bool special = false;
  // What this token adds to the decoded text; empty while a character is incomplete.
  std::string text = {};
  std::vector<TokenAlternative> alternatives = {};  // best first

  friend bool operator==(const OutputToken&, const OutputToken&) = default;
};

struct PromptToken {
  TokenId id = 0;
  float logprob = 0.0F;  // NaN for position 0
  std::string text = {};
  // What the model would rather have seen here: n_top_tokens of them, best first, none for position 0. A runner that
  // cannot tell leaves the list empty.
  std::vector<TokenAlternative> alternatives = {};

  friend bool operator==(const PromptToken&, const PromptToken&) = default;
};

struct SequenceFinish {
  FinishReason reason = FinishReason::kLength;
  std::string generated_text = {};  // the whole output, special tokens left out
  // Bytes of generated_text before the stop string that ended it; all of it for another reason.
  std::size_t stop_text_begin = 0;

  friend bool operator==(const SequenceFinish&, const SequenceFinish&) = default;
};

struct SequenceResult {
  SequenceId sequence{};
  // Not ok: this sequence failed and is dropped by the runner; others are untouched.
  Status status = {};
  // For kSample up to 1 + n_draft_max, usually one: those accepted, forced or sampled, in order. None of a sequence
  // that had ended before. The last one of a result with `finish` is the one that ended it.
  std::vector<OutputToken> tokens = {};
  // For kCandidates: n_candidates (or all that are left), best first; logprob is of the processed scores.
  std::vector<TokenAlternative> candidates = {};
  // First position whose keys are not computed. 0 = the one behind the positions of the row.
  std::uint32_t next_position = 0;
  // Guesses of tokens that were computed beside the known ones; those that were right are the tokens beyond one.
  std::uint32_t n_drafts = 0;
  std::vector<PromptToken> prompt = {};  // for the positions of this step, if asked for
  // Of this step: a row for each position of the context, and for each token. Null: none. Behind a pointer, because few
  // requests ask and every row of a step has a result; two results are equal only if they share it.
  std::shared_ptr<SequenceOutputs> outputs = {};
  std::optional<SequenceFinish> finish = {};

  friend bool operator==(const SequenceResult&, const SequenceResult&) = default;
};

struct StepTimings {
  std::chrono::nanoseconds forward{};
  std::chrono::nanoseconds sample{};  // choosing and decoding tokens
  std::chrono::nanoseconds total{};

  friend bool operator==(const StepTimings&, const StepTimings&) = default;
};

struct StepResult {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::vector<SequenceResult> sequences = {};  // one per row of the plan, in its order
  // What the runner can compute from the next plan on (a partial replica loads while it serves).
  LayerRange layers_ready = {};
  StepTimings timings = {};

  friend bool operator==(const StepResult&, const StepResult&) = default;
};

// Names one submitted plan.
struct StepTicket {
  std::uint64_t step = 0;
};

// What an attachment is for.
enum class AttachmentKind : std::uint8_t {
  kGrammar,  // no runner has a use for these three yet: refused by name
  kMedia,
  kAdapter,
  kHidden,  // StepPlan::hidden_in, hidden_out
  kBlocks,  // StepPlan::imports, exports; kv_layout.h says how they are laid out
};

inline std::string_view name_of(AttachmentKind kind) {
  switch (kind) {
    case AttachmentKind::kGrammar:
      return "grammar";
    case AttachmentKind::kMedia:
      return "media";
    case AttachmentKind::kAdapter:
      return "adapter";
    case AttachmentKind::kHidden:
      return "hidden";
    case AttachmentKind::kBlocks:
      return "blocks";
  }
  return "unknown";
}

// What wait() says at `until`.
inline Status not_yet(StepTicket ticket) {
  return {Code::kDeadlineExceeded, "step " + std::to_string(ticket.step) + " still runs"};
}

// Bytes that travel once. Ids are chosen by the caller, never 0, unique in an epoch.
struct Attachment {
  std::uint64_t id = 0;
  AttachmentKind kind = AttachmentKind::kHidden;
  std::string bytes = {};

  friend bool operator==(const Attachment&, const Attachment&) = default;
};

// Thread rule: one engine thread calls submit() and wait(); all else may be called by any thread.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // Fixed from construction until the epoch changes.
  virtual RunnerInfo info() const = 0;

  // Takes a plan without waiting for its result. REQUIRES: fewer than plans_in_flight_max plans in flight
  // (none, if !capabilities.look_ahead). Errors: kUnavailable: the state of the runner is unknown, not that
  // the plan was not applied.
  virtual Result<StepTicket> submit(StepPlan plan) = 0;

  // Blocks until the result of `ticket` is there, or `until` has passed. Tickets are waited for in the order of
  // submission. Errors: kDeadlineExceeded at `until`: the step goes on, and the ticket is waited for again;
  // kUnavailable as above; kInternal if the plan broke a rule of this header.
  virtual Result<StepResult> wait(StepTicket ticket, TimePoint until = TimePoint::max()) = 0;

  // A cheap liveness check that does not disturb a running step.
  virtual Status healthy() = 0;

  // Keeps the attachment for plans submitted after the call returns, until detach(), the step that uses it up, or the
  // end of the epoch. Repeating an attachment that is there is no error. Errors: kUnimplemented naming the kind;
  // kResourceExhausted naming attachment_bytes_max; kInvalidArgument, kFailedPrecondition (another layout) or
  // kDataLoss (a checksum) for bytes that are not what the kind says; kUnavailable.
  virtual Status attach(Attachment attachment);
  // Forgets it. Idempotent.
  virtual Status detach(std::uint64_t id);
  // As StepPlan::exports, but at once, beside the steps, there when the call returns. REQUIRES: what the blocks hold
  // was written by steps that have been waited for, no step in flight writes there. Errors: kUnimplemented without
  // exports_beside; kInternal for blocks outside of the cache; kResourceExhausted; kUnavailable, also at `until`.
  virtual Status export_blocks(const BlockTransfer& transfer, TimePoint until = TimePoint::max());
  // Hands over what a step made under `id`, which is then forgotten here. REQUIRES: that step has been waited for.
  // Errors: kNotFound; kUnavailable.
  virtual Result<Attachment> take(std::uint64_t id);

  Result<StepResult> run(StepPlan plan) {
    auto ticket = submit(std::move(plan));
    if (!ticket.ok()) return ticket.status();
    return wait(ticket.value());
  }
};

inline Status StepRunner::attach(Attachment attachment) {
  const Attachment refused = std::move(attachment);
  return {Code::kUnimplemented,
          "this runner takes no attachments of kind " + std::string(name_of(refused.kind))};
}

inline Status StepRunner::detach(std::uint64_t) {
  return {};
}

inline Status StepRunner::export_blocks(const BlockTransfer&, TimePoint) {
  return {Code::kUnimplemented, "this runner exports no blocks beside its steps"};
}

inline Result<Attachment> StepRunner::take(std::uint64_t id) {
  return Status(Code::kNotFound, "this runner has no attachment " + std::to_string(id));
}

}  // namespace coxswain
