#pragma once
// The fields that declare functions to call: OpenAI's `tools`, `tool_choice` and `parallel_tool_calls` with TGI's
// `tool_prompt`, and Anthropic's `tools` and `tool_choice`. Internal to the documents.
//
// Thread rule: pure functions. Errors go to the reader of fields, naming the member by its path.

#include "api/documents.h"
#include "api/fields.h"

namespace coxswain::api {

AskedTools read_openai_tools(FieldReader& fields, const DocumentLimits& limits);
// Of POST /v1/responses.
AskedTools read_responses_tools(FieldReader& fields, const DocumentLimits& limits);
AskedTools read_anthropic_tools(FieldReader& fields, const DocumentLimits& limits);

}  // namespace coxswain::api
