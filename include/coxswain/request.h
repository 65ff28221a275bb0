#pragma once
// Request and Response: what a program gives to an engine and what it gets, for Executor and Stepper alike.
//
// Thread rule: values.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/beam_params.h>
#include <coxswain/retention.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain {

// What a model continues: the ids alone count. LocalModel::tokenize() and chat() make one of text and say where its
// tokens come from; a program that has ids sets `ids` and leaves the rest empty.
struct Prompt {
  std::vector<TokenId> ids = {};
  std::string text = {};  // that was tokenised
  // [ids] or empty: the bytes of `text` that a token stands for; an empty span for one that was added (BOS).
  std::vector<TextSpan> spans = {};

  friend bool operator==(const Prompt&, const Prompt&) = default;
};

namespace library {
struct ParkedAt;
}

// Which part of a request an engine is asked for. With the last two, one engine computes prompts and another one
// generates: a request is enqueued as kContextOnly at the first, and with what its response says as kGenerationOnly,
// and otherwise the same, at the second.
enum class RequestType : std::uint8_t { kContextAndGeneration, kContextOnly, kGenerationOnly };

// What a context-only request leaves. The keys and values of the prompt stay in its engine until a generation-only
// request has fetched them, the lease is over, or the last copy of this is gone.
struct ContextPhase {
  RequestId request{};                         // the context-only one
  std::vector<OutputToken> first_tokens = {};  // one
  double cumulative_logprob = 0.0;
  std::shared_ptr<const library::ParkedAt> state = {};
};

struct Request {
  Prompt prompt = {};
  // How the answer may begin, as in an edited text: never more than a guess, which makes a model with draft_tokens_max
  // faster where it is right. Refused beside a beam search.
  std::vector<TokenId> draft = {};
  SamplingParams sampling = {};  // greedy; the seed is used as it is, 0 too
  // Sequences of the prompt, which is computed once. Sequence i is the request alone with the seed sampling.seed + i.
  // Of a beam search: its n best answers, best first; sequence 0 is the best one.
  std::uint32_t n = 1;
  // More than n: so many sequences are computed, and the n with the highest mean log-probability of their tokens are
  // the answers, best first, once all have ended. One that fails comes first. 0: n. Refused beside a beam search.
  std::uint32_t best_of = 0;
  // A width above 1: a beam search, whose answers come whole at its end. It takes the maximum of scores: beside it
  // do_sample, n_top_tokens and stop sequences of either kind are refused; what changes scores counts before it.
  BeamParams beams = {};
  // max_new_tokens = 0: as many as there is room for behind the prompt. The text of an answer holds no part of a stop
  // string that ended it; where `order` is kLengthFirst (TGI's) an answer whose last token completes both may.
  StoppingParams stopping = {.order = FinishOrder::kStopFirst};
  // Log-probabilities of the prompt's tokens; the prompt is then computed whole, whatever the prefix cache has.
  bool prompt_logprobs = false;
  // Logits and hidden states beside the tokens (LocalModelOptions::output_bytes_max); those of the context have the
  // prompt computed whole, too.
  OutputParams outputs = {};
  // Requests find each other's cached prefixes only if their salts are equal.
  std::string cache_salt = {};
  Retention retention = {};  // which of its cached blocks are kept longer
  // Whether later requests find its blocks in the cache: those of the prompt (and then what follows them), those with
  // generated tokens. It finds theirs either way.
  bool cache_prompt = true;
  bool cache_generation = true;
  // One sequence, no beams. kContextOnly: Response::context_phase, unless the first token ends the answer; its text
  // comes with the generation, so that a stop string that it begins is never seen.
  RequestType type = RequestType::kContextAndGeneration;
  std::chrono::milliseconds context_lease{30'000};  // of kContextOnly
  // Of kGenerationOnly. Its responses begin with the first token. Where the keys and values cannot be fetched (the
  // other engine is gone, the lease over, no room, another block size, no attachments) the prompt is computed again,
  // for the same tokens. What was wanted of the prompt came with the context and does not come again.
  std::optional<ContextPhase> context_phase = {};
  std::int32_t priority = 0;  // higher first; then arrival
  // Fails with kQueueTimeout if it is still waiting then.
  std::optional<TimePoint> queue_deadline = {};
  std::optional<TimePoint> deadline = {};  // fails with kDeadline if it is not finished then
};

struct Usage {
  std::uint32_t n_prompt_tokens = 0;
  std::uint32_t n_cached_prompt_tokens = 0;  // of these, taken from the prefix cache
  std::uint32_t n_generated_tokens = 0;
  // Guessed ahead and computed (LocalModelOptions::draft_tokens_max), and of these, right: what it cost and what it
  // gained, which depend on the clock and on what ran beside.
  std::uint32_t n_draft_tokens = 0;
  std::uint32_t n_accepted_draft_tokens = 0;

  friend bool operator==(const Usage&, const Usage&) = default;
};

// What is new of one of a request's answers since the last response of it: any number of tokens. The texts of all
// responses of a sequence are the answer's text, special tokens and a stop string that ended it left out; while what
// comes last may yet become a stop string it is kept back, so `text` may be shorter than its tokens and be made up by
// the next one. So it is with the text of stop sequences of ids, whose tokens are all there.
struct Response {
  RequestId id{};
  std::uint32_t sequence = 0;  // which of the request's sequences
  std::string text = {};
  std::vector<OutputToken> tokens = {};  // with log-probabilities; their own texts are complete
  std::vector<PromptToken> prompt = {};  // [n_prompt], once and first, if asked for
  // As asked for: the context once and first, a row for each of `tokens`.
  SequenceOutputs outputs = {};
  double cumulative_logprob = 0.0;  // of all tokens of the sequence so far
  // The last one of its request. In the last one of each sequence `finish` says how the answer ended, or `status` why
  // there is none.
  bool final = false;
  Status status = {};
  std::optional<FinishReason> finish = {};
  // In the place of `finish`, of a request that was context-only.
  std::optional<ContextPhase> context_phase = {};
  Usage usage = {};  // in the last one of a sequence

  // Nothing has come: the time that await() was given is over.
  bool empty() const { return !ends_sequence() && !final && tokens.empty() && prompt.empty(); }
  bool ends_sequence() const {
    return finish.has_value() || context_phase.has_value() || !status.ok();
  }
};

// The mean negative log-likelihood of the prompt's tokens, of which the first has none; perplexity is exp() of it.
// Empty without prompt_logprobs, or for a prompt of one token.
inline std::optional<double> ce_loss(const std::vector<PromptToken>& prompt) {
  if (prompt.size() < 2) return std::nullopt;
  double sum = 0.0;
  for (std::size_t i = 1; i < prompt.size(); ++i) sum -= static_cast<double>(prompt[i].logprob);
  return sum / static_cast<double>(prompt.size() - 1);
}

}  // namespace coxswain
