#pragma once
// StepRunner: the seam between the scheduler, which knows ids and budgets, and whatever computes:
// a local model, a shard behind gRPC, or a fake in a test.
//
// A StepPlan is a ragged batch of rows, plain values only. The engine submits plan k+1 before it
// has read result k (at most two in flight), so a row may take "the token of the previous step" as
// input.
//
// Order of one step inside the runner: drop sequences, add new ones, copy blocks, apply block-table
// changes, run the rows through the layer range, sample the rows that ask for it.
//
// State that a runner keeps for a sequence (penalty counts, stop matcher, partial UTF-8, grammar)
// is a pure function of its spec and output ids. A paused sequence keeps its id; to resume it the
// engine sends rows from position 0 (or the end of a cached prefix) again, with explicit token ids.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain {

// What a runner can do. The scheduler plans inside it; a stock TGI shard can do none of these.
struct Capabilities {
  bool plans_chunks = false;  // a prompt may be computed in several steps of any size
  bool selects_rows = false;  // any subset of the live sequences may be in a step
  bool grows_blocks = false;  // block tables may grow step by step
  bool takes_ids = false;     // prompts are token ids, not text
  bool look_ahead = false;    // Row::from_previous_step and two plans in flight
};

// Layers that share one pool of blocks and one block table per sequence.
struct KvGroup {
  enum class Kind : std::uint8_t { kFull, kWindow, kLatent, kState };
  std::vector<std::uint32_t> layers = {};
  Kind kind = Kind::kFull;
  std::uint32_t window = 0;  // tokens, for kWindow
  std::uint64_t bytes_per_block = 0;
  std::uint32_t n_blocks = 0;

  friend bool operator==(const KvGroup&, const KvGroup&) = default;
};

struct RunnerInfo {
  std::string engine_version = {};
  std::uint64_t epoch = 0;  // drawn at random at each start; a new one means all KV is gone
  std::string model_id = {};
  std::string model_type = {};
  std::string dtype =
      {};  // of the weights as computed with: "float32", "bfloat16", "float16", "int8"
  std::string device_type = "cpu";
  std::string kernel_set_id = {};
  std::uint64_t model_fingerprint = 0;
  std::uint32_t vocab_size = 0;  // width of the logits
  std::uint32_t n_layers = 0;
  std::uint32_t max_position_embeddings = 0;
  std::uint32_t max_input_tokens = 0;  // 0 = decided by the caller
  std::uint32_t max_total_tokens = 0;
  std::uint32_t block_tokens = 16;      // positions per block, a power of two
  std::vector<KvGroup> kv_groups = {};  // group 0 is the one a stock router manages
  std::vector<TokenId> eos_token_ids = {};
  // Rope whose angles depend on the length of the sequence: the limit at which the variant changes,
  // 0 = none.
  std::uint32_t rope_switch_length = 0;
  bool rope_length_is_exact =
      false;  // above the limit every length is a variant of its own (dynamic)
  Capabilities capabilities = {};
};

// Everything about a sequence that does not change. Sent once, before its first row.
struct SequenceSpec {
  SequenceId id{};
  std::vector<TokenId> prompt = {};  // [n_prompt], n_prompt >= 1
  std::vector<TokenId> produced =
      {};  // output ids of an earlier life (re-sent after a lost runner); usually empty
  SamplingParams sampling = {};
  StoppingParams stopping = {};
  bool prompt_logprobs = false;
  std::uint32_t rope_length = 0;  // prompt + resolved max_new_tokens, decided once
  std::string adapter = {};       // empty = base weights
  std::string cache_salt = {};    // part of the cache identity

  friend bool operator==(const SequenceSpec&, const SequenceSpec&) = default;
};

// The table of one KV group becomes table[0, first_index) + blocks.
struct BlockTableChange {
  std::uint32_t kv_group = 0;
  std::uint32_t first_index = 0;
  std::vector<BlockId> blocks = {};

  friend bool operator==(const BlockTableChange&, const BlockTableChange&) = default;
};

struct BlockCopy {
  std::uint32_t kv_group = 0;
  BlockId from = 0;
  BlockId to = 0;

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

enum class Emit : std::uint8_t {
  kNone,    // a chunk of a prompt: keys and values only
  kSample,  // the last position yields a token
};

// Consecutive positions of one sequence. At most one row per sequence in a plan.
struct Row {
  SequenceId sequence{};
  std::uint32_t first_position = 0;
  std::uint32_t n_tokens = 0;
  std::vector<TokenId> tokens = {};  // [n_tokens], empty if from_previous_step
  bool from_previous_step = false;   // n_tokens == 1: input is the token sampled in the plan before
  std::vector<BlockTableChange> table_changes = {};
  Emit emit = Emit::kNone;
  // Log-probabilities of the prompt tokens among these positions are wanted (each given its
  // prefix).
  bool prompt_logprobs = false;

  friend bool operator==(const Row&, const Row&) = default;
};

struct LayerRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;  // exclusive; begin == end == 0 means all layers
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

struct StepPlan {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  LayerRange layers = {};
  std::vector<SequenceSpec> new_sequences = {};
  std::vector<SequenceId> dropped = {};  // sequences whose state the runner may forget
  std::vector<BlockCopy> copies = {};
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
  std::string
      text;  // what this token adds to the decoded text; empty while a character is incomplete
  std::vector<TokenAlternative> alternatives = {};  // best first

  friend bool operator==(const OutputToken&, const OutputToken&) = default;
};

struct PromptToken {
  TokenId id = 0;
  float logprob = 0.0F;  // NaN for position 0
  std::string text = {};
  // What the model would rather have seen here: n_top_tokens of them, best first, none for position
  // 0. A runner that cannot tell leaves the list empty.
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
  Status status =
      {};  // not ok: this sequence failed and is dropped by the runner; others are untouched
  std::vector<OutputToken> tokens = {};  // [0] for kNone, [1] for kSample
  std::vector<PromptToken> prompt = {};  // for the positions of this step, if asked for
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
  StepTimings timings = {};

  friend bool operator==(const StepResult&, const StepResult&) = default;
};

// Names one submitted plan.
struct StepTicket {
  std::uint64_t step = 0;
};

// Thread rule: one engine thread calls submit() and wait(); info() and healthy() may be called by
// any thread.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // Fixed from construction until the epoch changes.
  virtual RunnerInfo info() const = 0;

  // Takes a plan without waiting for its result. REQUIRES: fewer than two plans in flight
  // (one, if !capabilities.look_ahead).
  // Errors: kUnavailable: the state of the runner is unknown, not that the plan was not applied.
  virtual Result<StepTicket> submit(StepPlan plan) = 0;

  // Blocks until the result of `ticket` is there. Tickets are waited for in the order of
  // submission. Errors: kUnavailable as above; kInternal if the plan broke a rule of this header.
  virtual Result<StepResult> wait(StepTicket ticket) = 0;

  // A cheap liveness check that does not disturb a running step.
  virtual Status healthy() = 0;

  Result<StepResult> run(StepPlan plan) {
    auto ticket = submit(std::move(plan));
    if (!ticket.ok()) return ticket.status();
    return wait(ticket.value());
  }
};

}  // namespace coxswain
