#pragma once
// The fields that say what the text of an answer has to look like: TGI's `grammar`, OpenAI's `response_format` and
// `text`, Anthropic's `output_config`, Ollama's `format`, vLLM's `guided_json`, `guided_regex`, `guided_choice`,
// `guided_grammar` and `structured_outputs`. Internal to the documents.
//
// Types and sizes are checked here; whether a schema or a pattern can be enforced is for the validator to find out. A
// member that is not known is refused by name: an answer that has another form than was asked for is worse than none.
//
// Thread rule: pure functions. Errors go to the reader of fields, naming the member by its path.

#include "api/documents.h"
#include "api/fields.h"

namespace coxswain::api {

// `grammar` of the native document: schemas as TGI reads them.
void read_native_grammar(FieldReader& fields, Parameters& out);

// `output_config.format` of /v1/messages.
void read_messages_grammar(FieldReader& fields, Parameters& out);

// `text.format` of /v1/responses.
void read_responses_grammar(FieldReader& fields, Parameters& out);

// Ollama's `format`: "json" or a schema.
void read_ollama_grammar(FieldReader& fields, Parameters& out);

// The fields below /v1. At most one of them may ask for a form.
void read_v1_grammar(FieldReader& fields, Parameters& out);

}  // namespace coxswain::api
