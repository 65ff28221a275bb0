#pragma once
// AnswerFormat: how the tokens of one request become the bytes of its answer. One implementation
// for each kind of answer: native and /v1, whole and streamed. Key order and shapes: docs/api.md.
//
// Thread rule: an object belongs to one request and one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "api/errors.h"
#include "api/extras.h"
#include "speech/reply_reader.h"

namespace coxswain::api {

// What is known about one sequence of a request, growing with every event.
struct SequenceAnswer {
  std::uint32_t n_prompt = 0;  // tokens
  std::uint32_t n_cached = 0;  // of these, taken from the prefix cache; once a token is there
  std::optional<std::uint64_t> seed;       // empty: greedy
  std::vector<TokenId> prompt_ids;         // only where the answer lists them
  std::string prompt_text;                 // only where the answer repeats it
  std::vector<std::string> prompt_pieces;  // what each token adds to it, if they are listed
  bool prompt_only = false;  // the one token that was generated is no part of the answer
  std::vector<std::string> stops;
  std::vector<std::vector<TokenId>> id_stops;
  std::vector<OutputToken> tokens;  // only if the format keeps them
  std::vector<PromptToken> prompt;
  std::uint32_t n_generated = 0;  // tokens
  // Tokens guessed ahead and computed, and of these, right; once the sequence has ended.
  std::uint32_t n_drafts = 0;
  std::uint32_t n_drafts_accepted = 0;
  double logprob_sum = 0;
  SequenceFinish finish;  // once the sequence has ended
  // Once a token is there:
  TimePoint queued_at{};
  TimePoint scheduled_at{};
  TimePoint first_token_at{};
  TimePoint finished_at{};  // of a sequence that goes on: its last token

  double mean_logprob() const { return n_generated == 0 ? 0 : logprob_sum / n_generated; }
};

// What one event of the engine adds to a sequence.
struct AnswerPiece {
  std::span<const OutputToken> tokens = {};
  std::span<const PromptToken> prompt = {};
  bool final = false;  // the sequence has ended
};

// Index of the sequence with the highest mean log-probability; the first among equals.
std::size_t best_sequence(std::span<const SequenceAnswer> sequences);

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual bool streams() const = 0;
  // Whether body() needs SequenceAnswer::tokens and prompt; never of a stream.
  virtual bool keeps_tokens() const = 0;

  // Whole answers: the body, once all sequences have ended.
  virtual std::string body(std::span<const SequenceAnswer> sequences) = 0;

  // Streams: the framed events for what `piece` adds to sequence `index`; one entry is one HTTP
  // chunk. `sequence` already holds the piece.
  virtual std::vector<std::string> events(const SequenceAnswer& sequence,
                                          std::size_t index,
                                          const AnswerPiece& piece) = 0;
  // Streams: what follows the last event of the last sequence.
  virtual std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) = 0;
  // Streams that have begun: the last events where a failure has a form of its own, else nothing.
  virtual std::vector<std::string> failure(const Status&) { return {}; }
};

class WholeAnswer : public AnswerFormat {
 public:
  bool streams() const final { return false; }
  std::vector<std::string> events(const SequenceAnswer&, std::size_t, const AnswerPiece&) final {
    return {};
  }
  std::vector<std::string> closing(std::span<const SequenceAnswer>) final { return {}; }
};

class StreamedAnswer : public AnswerFormat {
 public:
  bool streams() const final { return true; }
  bool keeps_tokens() const final { return false; }
  std::string body(std::span<const SequenceAnswer>) final { return {}; }
};

struct NativeAnswerOptions {
  bool details = false;           // whole answers: also if decoder_input_details
  bool top_tokens = false;        // n_top_tokens > 0
  bool return_full_text = false;  // prefix with prompt_text
  bool as_array = false;          // POST /
};
std::unique_ptr<AnswerFormat> make_native_answer(const NativeAnswerOptions& options);
std::unique_ptr<AnswerFormat> make_native_stream(const NativeAnswerOptions& options);

using speech::ReplyOptions;
using speech::TextRules;

struct OpenAiAnswerOptions {
  ApiStyle style = ApiStyle::
      kOpenAi;  // or kTgi: names of ends, no `bytes`, no cached tokens; where `usage` stands
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string system_fingerprint;
  bool logprobs = false;
  bool include_usage = false;  // streams
  TextRules text = {};
  Extras extras = {};
  std::uint32_t n_top_logprobs = 0;  // alternatives of each token
  // Chats:
  std::optional<ReplyOptions> reply;  // empty: all is content
  // Completions:
  std::size_t n_best = 0;  // of the sequences of a prompt, best first; 0: all, as they are
  bool echo = false;       // prompt_text in front
};
std::unique_ptr<AnswerFormat> make_chat_answer(OpenAiAnswerOptions options);
std::unique_ptr<AnswerFormat> make_chat_stream(OpenAiAnswerOptions options);
// Sequences are numbered prompt by prompt; `per_prompt` sequences belong to each.
std::unique_ptr<AnswerFormat> make_completion_answer(OpenAiAnswerOptions options,
                                                     std::size_t per_prompt);
std::unique_ptr<AnswerFormat> make_completion_stream(OpenAiAnswerOptions options,
                                                     std::size_t per_prompt);

// Of POST /v1/messages.
struct MessagesAnswerOptions {
  std::string id;
  std::string model;
  ReplyOptions reply;
};
std::unique_ptr<AnswerFormat> make_messages_answer(MessagesAnswerOptions options);
std::unique_ptr<AnswerFormat> make_messages_stream(MessagesAnswerOptions options);

// Of POST /v1/responses.
struct ResponsesAnswerOptions {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string echo;  // more members of the document, a comma in front
  bool logprobs = false;
  ReplyOptions reply;
  // Called with the document and its `output` once the answer is whole, before it leaves; may be empty.
  std::function<void(const std::string& document, const std::string& output)> keep;
};
std::unique_ptr<AnswerFormat> make_responses_answer(ResponsesAnswerOptions options);
std::unique_ptr<AnswerFormat> make_responses_stream(ResponsesAnswerOptions options);

// Of POST /api/chat and /api/generate. Streams are lines of JSON.
struct OllamaAnswerOptions {
  bool chat = true;  // a `message`, or a `response`
  std::string model;
  std::int64_t created = 0;  // seconds since 1970
  TimePoint received{};
  bool logprobs = false;
  ReplyOptions reply;
};
std::unique_ptr<AnswerFormat> make_ollama_answer(OllamaAnswerOptions options);
std::unique_ptr<AnswerFormat> make_ollama_stream(OllamaAnswerOptions options);
// To a request without anything to answer: `reason` is "load" or "unload".
std::string ollama_empty_answer(const OllamaAnswerOptions& options, std::string_view reason);

}  // namespace coxswain::api
