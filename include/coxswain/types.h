#pragma once
// Ids, spans and the plain values that several modules share. No logic, no ownership.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace coxswain {

using TokenId = std::int32_t;  // an index into the vocabulary; negative is never valid
using BlockId = std::uint32_t;

// A block-table entry whose positions have left the window of its KV group and are no sink tokens.
inline constexpr BlockId kReleasedBlock = 0xFFFFFFFFu;

enum class RequestId : std::uint64_t {};  // one client request; unique in the life of a router
// One sequence of tokens; best_of and n give a request several.
enum class SequenceId : std::uint64_t {};

// [begin, end) in bytes of a text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

using Clock = std::chrono::steady_clock;  // every limit of time is monotonic
using TimePoint = Clock::time_point;

enum class FinishReason : std::uint8_t { kLength, kEosToken, kStopSequence };
// Which reason ends a sequence where its last token gives several.
enum class FinishOrder : std::uint8_t {
  kLengthFirst,  // length, end token, stop string: TGI's
  kStopFirst,    // stop string, end token, length: OpenAI's, whose answers never hold a stop string
};

// A temperature below this one takes the most likely token, as do_sample = false does.
inline constexpr float kGreedyTemperature = 1e-6F;
// Alternatives of a token that any runner reports, and those that one in this process can be made to report.
inline constexpr std::size_t kTopTokensMax = 64;
inline constexpr std::size_t kLocalTopTokensMax = 1024;

// What the text of an answer has to look like, compiled: the bytes that grammar/program.h reads and writes. Copies
// share them. Thread rule: immutable.
struct CompiledGrammar {
  std::shared_ptr<const std::string> bytes = nullptr;  // null: any text

  explicit operator bool() const { return bytes != nullptr; }
  std::size_t size() const { return bytes == nullptr ? 0 : bytes->size(); }
  friend bool operator==(const CompiledGrammar& a, const CompiledGrammar& b) {
    return a.bytes == b.bytes || (a.bytes != nullptr && b.bytes != nullptr && *a.bytes == *b.bytes);
  }
};

// The steps of a chain whose order a request may choose (SamplingParams::samplers).
enum class SamplerStep : std::uint8_t {
  kDry,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kEpsilon,
  kEta,
  kXtc,
  kTemperature,
};

// A block of thoughts in the output that is closed once it has so many tokens: those of `close` are then the next ones,
// whatever the model would rather say, unless a grammar binds the text there.
struct ThoughtBudget {
  std::uint32_t tokens_max = 0;
  // Opens the block, which counts from behind it; empty: the output begins inside of it.
  std::vector<TokenId> open = {};
  std::vector<TokenId> close = {};  // not empty

  friend bool operator==(const ThoughtBudget&, const ThoughtBudget&) = default;
};

// How the next token is chosen. Defaults mean "off"; a default-constructed value is greedy.
// Order of the steps and the formulas: docs/sampling.md. The ranges below are what request/sampling_rules.h enforces
// for everybody; no value may be NaN, and only a bias may be infinite.
struct SamplingParams {
  // Draw from the distribution; false takes the maximum, ties to the lowest id.
  bool do_sample = false;
  float temperature = 1.0F;         // > 0
  std::int32_t top_k = 0;           // >= 0; 0 = off
  float top_p = 1.0F;               // (0, 1]
  float typical_p = 1.0F;           // (0, 1]
  float min_p = 0.0F;               // [0, 1)
  float repetition_penalty = 1.0F;  // > 0, over the distinct ids of the request's own context
  float relative_frequency_penalty = 0.0F;  // TGI's: value * count / context length
  float frequency_penalty = 0.0F;           // OpenAI's: value * count in the output
  float presence_penalty = 0.0F;            // OpenAI's: value once per id in the output
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // ids of the vocabulary
  std::uint64_t seed = 0;                                  // resolved before the engine sees it
  // How many alternatives to report per token: at most Capabilities::top_tokens_max.
  std::uint32_t n_top_tokens = 0;
  // frequency_penalty and presence_penalty count the prompt, too, as TensorRT-LLM's do.
  bool penalties_count_prompt = false;
  // An n-gram of so many tokens does not come twice in prompt and output; 0 = off.
  std::uint32_t no_repeat_ngram_size = 0;
  // Sequences of ids that are not completed, in prompt and output: the last id of each may not follow the others.
  std::vector<std::vector<TokenId>> bad_words = {};
  // No other ids are chosen, but for the request's end tokens; empty = all.
  std::vector<TokenId> allowed_tokens = {};
  float epsilon_cutoff = 0.0F;     // [0, 1)
  float eta_cutoff = 0.0F;         // [0, 1)
  float top_n_sigma = 0.0F;        // >= 0; 0 = off
  float dynatemp_range = 0.0F;     // >= 0: the temperature moves in temperature +- range; 0 = off
  float dynatemp_exponent = 1.0F;  // > 0
  float xtc_probability = 0.0F;    // [0, 1]; 0 = off
  float xtc_threshold = 0.1F;      // (0, 1]
  float dry_multiplier = 0.0F;     // >= 0; 0 = off
  float dry_base = 1.75F;          // >= 1
  std::uint32_t dry_allowed_length = 2;  // > 0
  // Last tokens of prompt and output that are looked at; 0 = all.
  std::uint32_t dry_penalty_last_n = 0;
  // A repetition does not reach over a token whose text holds one of these.
  std::vector<std::string> dry_sequence_breakers = {};
  // TGI's, with its gamma, delta and hash of the last token (Kirchenbauer et al. 2023).
  bool watermark = false;
  // These alone, in this order; a step at its neutral value does nothing. Empty: all, in the order of docs/sampling.md.
  std::vector<SamplerStep> samplers = {};
  // A processor that the runner has under this name sees the logits first (logits_processor.h); empty = none.
  std::string logits_processor = {};
  // Handed to it as it is, for example the program's id of the request.
  std::uint64_t logits_processor_tag = 0;
  // Tokens that would lead out of it are not chosen; end tokens only where the text is whole. Empty = off.
  CompiledGrammar grammar = {};
  std::optional<ThoughtBudget> thoughts = {};

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

struct StoppingParams {
  std::uint32_t max_new_tokens = 0;  // > 0
  std::vector<std::string> stop_sequences = {};
  bool ignore_eos = false;  // the sequence has no end token
  FinishOrder order = FinishOrder::kLengthFirst;
  // End tokens may not be chosen before the output has so many tokens; at most max_new_tokens.
  std::uint32_t min_new_tokens = 0;
  std::vector<TokenId> end_ids = {};  // end tokens in place of the model's; empty = the model's
  // Stop sequences of ids, found in the output alone.
  std::vector<std::vector<TokenId>> stop_token_sequences = {};

  friend bool operator==(const StoppingParams&, const StoppingParams&) = default;
};

// What a request wants beside its tokens. Logits are the model's, before any processor; hidden states are those of the
// last layer behind the final norm. Context: of every position of the prompt; generation: of every position that yields
// a token, the first of which is the prompt's last. Runners in this process only (Capabilities::output_bytes_max).
struct OutputParams {
  bool context_logits = false;
  bool generation_logits = false;
  bool context_hidden = false;
  bool generation_hidden = false;

  bool any_context() const { return context_logits || context_hidden; }
  bool any_generation() const { return generation_logits || generation_hidden; }
  bool any() const { return any_context() || any_generation(); }
  friend bool operator==(const OutputParams&, const OutputParams&) = default;
};

// The answer: rows one after the other, [n, vocab_size] or [n, hidden_size].
struct SequenceOutputs {
  std::vector<float> context_logits = {};
  std::vector<float> generation_logits = {};
  std::vector<float> context_hidden = {};
  std::vector<float> generation_hidden = {};

  friend bool operator==(const SequenceOutputs&, const SequenceOutputs&) = default;
};

}  // namespace coxswain
