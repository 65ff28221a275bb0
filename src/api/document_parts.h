#pragma once
// Parts that the documents below /v1 have in common. Internal to the documents.
//
// Thread rule: pure functions.

#include <coxswain/status.h>

#include "api/documents.h"
#include "api/fields.h"

namespace coxswain::api {

// The body as an object, or why it is none.
Result<const json::Object*> require_object(const json::Value& body);

// Sampling and stopping fields and the form of the answer: what /v1/chat/completions and /v1/completions share.
Parameters read_openai_parameters(FieldReader& fields, const DocumentLimits& limits);

// min_p, bad_words and Parameters::steps, which native parameters and both documents below /v1 have.
void read_sampling_steps(FieldReader& fields, Parameters& out);

// Another name of the number of new tokens, where the client gave one. Both must be equal if both are set.
void set_new_tokens(FieldReader& fields,
                    std::string_view name,
                    std::uint32_t value,
                    Parameters& out);

// repeat_penalty and repeat_last_n, another name of repetition_penalty.
void read_repeat_penalty(FieldReader& fields, Parameters& out);

// priority, timeout_ms and cache_salt, which every route has.
void read_scheduling(FieldReader& fields, Parameters& out);

// The messages of a chat: contents as texts, all other members as they came.
Result<json::Value> read_chat_messages(const json::Value* value,
                                       const DocumentLimits& limits,
                                       IgnoredFields& ignored);

// `logprobs` and, with it alone, `top_logprobs`.
bool read_logprobs(FieldReader& fields, Parameters& out);

// stream_options.include_usage.
bool read_include_usage(FieldReader& fields);

// Unknown and effect-free names; refuses unknown ones if limits.strict_fields.
IgnoredFields finish_fields(FieldReader& fields, const DocumentLimits& limits);

// An array of token ids; empty ones included. Errors: one that is no integer from 0 on.
Result<std::vector<TokenId>> read_token_ids(const json::Array& array, std::string_view field);

}  // namespace coxswain::api
