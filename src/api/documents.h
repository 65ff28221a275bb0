#pragma once
// The requests that clients send, as read from JSON and before any check of meaning: types and
// sizes are right, nothing else. Every front end ends in the same Parameters, so one validator
// serves all of them (validate.h).
//
// The field tables with ranges and defaults: docs/api.md. null means absent in every field; fields
// that an API documents and that are not supported are refused by name unless they hold their
// neutral value; unknown fields are listed.
//
// Thread rule: values; parse functions are pure.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "api/extras.h"
#include "json/json.h"
#include "speech/asked.h"
#include "speech/reply_reader.h"

namespace coxswain::api {

// Upper bounds on parts of a document that are not tokens.
struct DocumentLimits {
  std::size_t messages_max = 1024;
  std::size_t parts_per_message_max = 64;
  std::size_t role_bytes_max = 64;
  std::size_t model_bytes_max = 256;
  std::size_t user_bytes_max = 256;
  std::size_t logit_bias_entries_max = 1024;
  std::size_t tools_max = 1024;
  std::size_t tool_name_bytes_max = 256;
  std::size_t tool_prompt_bytes_max = 16 << 10;
  std::size_t client_batch_max = 4;  // prompts in one completion request (--max-client-batch-size)
  bool strict_fields = false;        // refuse unknown fields
};

using speech::AskedGrammar;
using speech::AskedThoughts;
using speech::AskedTools;

// How to generate, as given: an empty optional is a field that the client left out.
struct Parameters {
  std::optional<std::uint64_t> best_of;
  std::optional<std::uint32_t> n;
  std::optional<float> temperature;
  std::optional<float> repetition_penalty;
  std::optional<float> frequency_penalty;
  std::optional<float> presence_penalty;
  std::optional<std::int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> typical_p;
  std::optional<float> min_p;
  // The steps that no rule of a route stands for, as the engine takes them: cutoffs, dynamic temperature, XTC, DRY,
  // watermark, allowed tokens, n-grams and the order.
  SamplingParams steps;
  std::vector<std::string> bad_words;  // texts
  bool do_sample = false;
  std::optional<std::uint32_t> max_new_tokens;
  std::uint32_t min_new_tokens = 0;  // before a token that ends the answer
  // What the client called these, unless the route's usual name.
  std::string_view new_tokens_field;
  std::string_view top_tokens_field;
  std::string_view repetition_penalty_field;
  std::optional<bool> return_full_text;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_ids;
  std::optional<std::uint64_t> truncate;
  bool truncate_to_fit = false;  // in its place: as many tokens as there is room for
  bool truncates() const { return truncate || truncate_to_fit; }
  bool details = false;
  bool decoder_input_details = false;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint32_t> top_n_tokens;
  std::vector<std::pair<TokenId, float>> logit_bias;
  bool ignore_eos = false;
  speech::TextRules text;
  Extras extras;
  std::optional<AskedGrammar> grammar;
  std::optional<ThoughtBudget> thoughts;  // set by who knows how the model spells them
  // When it runs, not what it yields.
  std::int32_t priority = 0;                // higher first
  std::optional<std::uint32_t> timeout_ms;  // from its arrival
  bool cache_prompt = true;                 // false: it takes no cached prefix, and leaves none
  std::string cache_salt;  // empty: prefixes are shared with all others without one
};

// What goes into the header x-ignored-fields.
using IgnoredFields = std::vector<std::string>;

// Bodies of POST /, /generate, /generate_stream and /tokenize.
struct GenerateRequest {
  std::string inputs;
  Parameters parameters;
  std::optional<bool> stream;  // decides on POST / only
  IgnoredFields ignored;
};

// Body of POST /v1/chat/completions and /chat_tokenize; what that of POST /v1/messages stands for.
struct ChatRequest {
  std::optional<std::string> model;
  json::Value messages;   // array of objects; content is a string, every other member as it came
  json::Value documents;  // array or null
  json::Value template_arguments;  // object or null
  AskedTools tools;
  std::optional<AskedThoughts> thoughts;
  std::optional<bool> add_generation_prompt;
  std::optional<bool> continue_final_message;
  Parameters parameters;
  bool logprobs = false;
  bool stream = false;
  bool include_usage = false;
  IgnoredFields ignored;
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

// Body of POST /v1/completions.
struct CompletionRequest {
  std::optional<std::string> model;
  std::vector<Prompt> prompts;  // at least one
  Parameters parameters;
  bool echo = false;      // the prompt in front of the text
  bool logprobs = false;  // of every token; how many alternatives: parameters.top_n_tokens
  bool stream = false;
  bool include_usage = false;
  IgnoredFields ignored;
};

// Body of POST /v1/responses.
struct ResponsesRequest {
  ChatRequest chat;   // its `messages` are set by set_response_messages()
  json::Array items;  // of `input`
  std::string instructions;
  std::optional<std::string> previous;  // id of the response whose items come first
  std::optional<bool> store;
  json::Object echo;  // what the answer repeats
};

// Body of POST /api/chat and /api/generate.
struct OllamaRequest {
  // Its `messages` are null where there is nothing to answer: the client wants the model loaded.
  ChatRequest chat;
  bool raw = false;      // `prompt` is given to the model as it is
  std::string prompt;    // of /api/generate, which also is the last message
  bool unloads = false;  // keep_alive is 0
};

// Body of POST /detokenize.
struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<TokenId> tokens;
  bool skip_special_tokens = false;
  IgnoredFields ignored;
};

// Errors: kInvalidArgument with kind kValidation, naming the field.
Result<GenerateRequest> read_generate_request(const json::Value& body,
                                              const DocumentLimits& limits);
Result<ChatRequest> read_chat_request(const json::Value& body, const DocumentLimits& limits);
// POST /v1/messages: `system` is the first message; neighbours of one role are one message, a blank line between them.
Result<ChatRequest> read_messages_request(const json::Value& body, const DocumentLimits& limits);
// POST /v1/messages/count_tokens: the same without a need for `max_tokens`.
Result<ChatRequest> read_count_tokens_request(const json::Value& body,
                                              const DocumentLimits& limits);
Result<ResponsesRequest> read_responses_request(const json::Value& body,
                                                const DocumentLimits& limits);
// Makes the chat of `instructions`, the items of earlier responses and those of the request. Neighbours of one role are
// one message, a blank line between them.
Status set_response_messages(ResponsesRequest& request,
                             const json::Array& earlier,
                             const DocumentLimits& limits);
Result<OllamaRequest> read_ollama_chat_request(const json::Value& body,
                                               const DocumentLimits& limits);
Result<OllamaRequest> read_ollama_generate_request(const json::Value& body,
                                                   const DocumentLimits& limits);
// POST /api/show: the name of the model.
Result<std::string> read_ollama_show_request(const json::Value& body, const DocumentLimits& limits);
Result<CompletionRequest> read_completion_request(const json::Value& body,
                                                  const DocumentLimits& limits);
Result<DetokenizeRequest> read_detokenize_request(const json::Value& body,
                                                  const DocumentLimits& limits);

}  // namespace coxswain::api
