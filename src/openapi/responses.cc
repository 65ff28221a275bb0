// OpenAI's newer routes: responses.

#include "openapi/families.h"

namespace coxswain::openapi {
namespace {

constexpr auto kRequest = Object::Side::kRequest;
constexpr auto kAnswer = Object::Side::kAnswer;

constexpr std::array kResponses{
    Member{"model", "string <= 256", "As in chats."},
    Member{.name = "input", .type = "string|[InputItem]", .presence = kRequired},
    Member{"instructions", "string", "The first message."},
    Member{"previous_response_id", "string <= 256", "Its items come first."},
    Member{"store", "bool", "Whether this one is kept; by default if any are."},
    Member{"stream", "bool", "", "false"},
    Member{"max_output_tokens", "u32 >= 1", "Without it: all that fits."},
    Member{"temperature", "number >= 0", "0 is greedy.", "1"},
    Member{"top_p", "number > 0 <= 1", "", "1"},
    Member{"top_k", "i32 >= -1", "0 and -1 are off.", "-1"},
    Member{"typical_p", "number > 0 <= 1", "", "1"},
    Member{"frequency_penalty", "number >= -2 <= 2", "Over the output.", "0"},
    Member{"presence_penalty", "number >= -2 <= 2", "Over the output.", "0"},
    Member{"repetition_penalty", "number > 0", "Over prompt and output.", "1"},
    Member{"seed",
           "integer >= -9223372036854775808 <= 18446744073709551615",
           "A negative one stands for its bits, -1 for none."},
    Member{"stop", "string|[string >= 1 <= 1024]", "At most --max-stop-sequences; cut off."},
    Member{"stream_options", "StreamOptions", "There is always a usage."},
    Member{"text", "ResponseText", "The form of the answer."},
    Member{"reasoning", "ResponseReasoning"},
    Member{"include",
           "['message.output_text.logprobs'|'reasoning.encrypted_content']",
           "Log-probabilities; the other changes nothing."},
    Member{"top_logprobs", "u32 <= 1024", "Up to 20.", "0"},
    Member{"tools", "[ResponseTool] <= 1024"},
    Member{"tool_choice", "string|ResponseToolChoice", "", R"("auto")"},
    Member{"parallel_tool_calls", "bool", "", "true"},
    Member{"metadata", "object", "Repeated in the answer."},
    Member{"user", "string <= 256", "A label."},
    Member{"safety_identifier", "string <= 256", "A label."},
    Member{"prompt_cache_key", "string <= 256", "A label."},
};
constexpr std::array kText{Member{"format", "TextFormat"}};
constexpr std::array kTextFormat{
    Member{.name = "type", .type = "'text'|'json_object'|'json_schema'", .presence = kRequired},
    Member{"name", "string <= 256"},
    Member{"description", "string <= 16384"},
    Member{"strict", "bool", "Every schema is enforced."},
    Member{"schema", "object"},
};
constexpr std::array kReasoning{
    Member{"effort", "string <= 64", "For the template."},
    Member{"summary", "string <= 64", "Changes nothing."},
    Member{"generate_summary", "string <= 64", "Changes nothing."},
};
constexpr std::array kTool{
    Member{"type", "'function'"},
    Member{.name = "name", .type = "string >= 1 <= 256", .presence = kRequired},
    Member{"description", "any"},
    Member{"parameters", "object", "A schema."},
    Member{"strict", "bool", "Calls follow the schema."},
};
constexpr std::array kToolChoice{
    Member{"type", "'function'"},
    Member{.name = "name", .type = "string <= 256", .presence = kRequired},
};
constexpr std::array kMessageItem{
    Member{"type", "'message'"},
    Member{
        .name = "role", .type = "'user'|'assistant'|'system'|'developer'", .presence = kRequired},
    Member{.name = "content", .type = "string|[InputPart] <= 64", .presence = kRequired},
};
// As answers have them; nothing here reads them.
constexpr std::array kOfAnswers{
    Member{"id", "any"},
    Member{"status", "any"},
    Member{"phase", "any"},
};
constexpr std::array kOfAnsweredParts{
    Member{"annotations", "any"},
    Member{"logprobs", "any"},
};
constexpr std::array kPart{
    Member{.name = "type",
           .type = "'input_text'|'output_text'|'reasoning_text'|'summary_text'|'text'",
           .presence = kRequired},
    Member{.name = "text", .type = "string", .presence = kRequired},
};
constexpr std::array kRefusalPart{
    Member{.name = "type", .type = "'refusal'", .presence = kRequired},
    Member{.name = "refusal", .type = "string", .presence = kRequired},
};
constexpr std::array kCallItem{
    Member{.name = "type", .type = "'function_call'", .presence = kRequired},
    Member{.name = "call_id", .type = "string", .presence = kRequired},
    Member{.name = "name", .type = "string", .presence = kRequired},
    Member{.name = "arguments", .type = "string", .presence = kRequired},
};
constexpr std::array kResultItem{
    Member{.name = "type", .type = "'function_call_output'", .presence = kRequired},
    Member{.name = "call_id", .type = "string", .presence = kRequired},
    Member{.name = "output", .type = "string|[InputPart] <= 64", .presence = kRequired},
};
constexpr std::array kReasoningItem{
    Member{.name = "type", .type = "'reasoning'", .presence = kRequired},
    Member{"content", "string|[InputPart] <= 64"},
    Member{"summary", "string|[InputPart] <= 64"},
    Member{"encrypted_content", "any", "Nothing here reads it."},
};

constexpr std::array kResponse{
    Member{"id", "string"},
    Member{"object", "'response'"},
    Member{"created_at", "integer >= 0", "Seconds since 1970."},
    Member{"status", "'in_progress'|'completed'|'incomplete'|'failed'"},
    Member{"background", "bool"},
    Member{"error", "ResponseError|null"},
    Member{"incomplete_details", "IncompleteDetails|null"},
    Member{"model", "string"},
    Member{"output", "[OutputItem]"},
    Member{"usage", "ResponseUsage|null"},
    Member{"instructions", "string|null"},
    Member{"max_output_tokens", "u32|null"},
    Member{"previous_response_id", "string|null"},
    Member{"temperature", "number"},
    Member{"top_p", "number"},
    Member{"parallel_tool_calls", "bool"},
    Member{"text", "object"},
    Member{"tool_choice", "string|object"},
    Member{"tools", "[object]"},
    Member{"metadata", "object"},
    Member{"reasoning", "object"},
    Member{"top_logprobs", "u32"},
    Member{"truncation", "'disabled'"},
    Member{"store", "bool"},
};
constexpr std::array kError{Member{"code", "string"}, Member{"message", "string"}};
constexpr std::array kIncomplete{Member{"reason", "'max_output_tokens'"}};
constexpr std::array kUsage{
    Member{"input_tokens", "u32"},
    Member{"input_tokens_details", "InputTokensDetails"},
    Member{"output_tokens", "u32"},
    Member{"output_tokens_details", "CompletionTokensDetails"},
    Member{"total_tokens", "u64"},
};
constexpr std::array kInputDetails{
    Member{"cached_tokens", "u32"},
    Member{"cache_write_tokens", "u32"},
};
constexpr std::array kStatus{
    Member{"id", "string"},
    Member{"status", "'in_progress'|'completed'|'incomplete'"},
};
constexpr std::array kOutputMessage{
    Member{"type", "'message'"},
    Member{"role", "'assistant'"},
    Member{"content", "[OutputText]"},
};
constexpr std::array kOutputText{
    Member{"type", "'output_text'"},
    Member{"text", "string"},
    Member{"annotations", "[any]"},
    Member{"logprobs", "[TokenLogprob]"},
};
constexpr std::array kOutputReasoning{
    Member{"type", "'reasoning'"},
    Member{"summary", "[any]"},
    Member{"content", "[ReasoningText]"},
};
constexpr std::array kReasoningText{Member{"type", "'reasoning_text'"}, Member{"text", "string"}};
constexpr std::array kOutputCall{
    Member{"type", "'function_call'"},
    Member{"call_id", "string"},
    Member{"name", "string"},
    Member{"arguments", "string"},
};
// `type` says which of the others are there.
constexpr std::array kEvent{
    Member{"type",
           "'response.created'|'response.in_progress'|'response.output_item.added'|"
           "'response.content_part.added'|'response.output_text.delta'|"
           "'response.reasoning_text.delta'|'response.function_call_arguments.delta'|"
           "'response.output_text.done'|'response.reasoning_text.done'|"
           "'response.function_call_arguments.done'|'response.content_part.done'|"
           "'response.output_item.done'|'response.completed'|'response.incomplete'|"
           "'response.failed'"},
    Member{"sequence_number", "u64"},
    Member{.name = "response", .type = "Response", .presence = kMayBeAbsent},
    Member{.name = "output_index", .type = "u32", .presence = kMayBeAbsent},
    Member{.name = "content_index", .type = "u32", .presence = kMayBeAbsent},
    Member{.name = "item_id", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "item", .type = "OutputItem", .presence = kMayBeAbsent},
    Member{.name = "part", .type = "OutputText|ReasoningText", .presence = kMayBeAbsent},
    Member{.name = "delta", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "text", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "name", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "arguments", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "logprobs", .type = "[TokenLogprob]", .presence = kMayBeAbsent},
};
constexpr std::array kInputItems{
    Member{"object", "'list'"},
    Member{"data", "[object]"},
    Member{"first_id", "string|null"},
    Member{"last_id", "string|null"},
    Member{"has_more", "bool"},
};
constexpr std::array kCancelled{
    Member{"id", "string"},
    Member{"object", "'response'"},
    Member{"created_at", "integer >= 0"},
    Member{"status", "'cancelled'"},
    Member{"error", "null"},
    Member{"incomplete_details", "null"},
    Member{"model", "string"},
    Member{"output", "[OutputItem]"},
    Member{"parallel_tool_calls", "bool"},
    Member{"tool_choice", "string"},
    Member{"tools", "[object]"},
};
constexpr std::array kDeleted{
    Member{"id", "string"},
    Member{"object", "'response'"},
    Member{"deleted", "bool"},
};

void describe_requests(Description& out) {
  out.request(
      "ResponsesRequest", {kResponses, sampling_steps(), scheduling()}, "", R"({"input":"a"})");
  out.request("ResponseText", {kText});
  out.request("TextFormat", {kTextFormat}, "", R"({"type":"json_schema","schema":{}})");
  out.request("ResponseReasoning", {kReasoning});
  out.request("ResponseTool", {kTool}, "", R"({"name":"a"})");
  out.request("ResponseToolChoice", {kToolChoice}, "", R"({"name":"a"})");
  out.alias("InputItem", kRequest, "MessageItem|CallItem|ResultItem|ReasoningItem");
  out.request("MessageItem", {kMessageItem, kOfAnswers}, "", R"({"role":"user","content":"a"})");
  out.alias("InputPart", kRequest, "InputText|RefusalPart");
  out.request("InputText",
              {kPart, kOfAnswers, kOfAnsweredParts},
              "",
              R"({"type":"input_text","text":"a"})");
  out.request("RefusalPart",
              {kRefusalPart, kOfAnswers, kOfAnsweredParts},
              "",
              R"({"type":"refusal","refusal":"a"})");
  out.request("CallItem",
              {kCallItem, kOfAnswers},
              "",
              R"({"type":"function_call","call_id":"a","name":"a","arguments":"{}"})");
  out.request("ResultItem",
              {kResultItem, kOfAnswers},
              "",
              R"({"type":"function_call_output","call_id":"a","output":"a"})");
  out.request("ReasoningItem", {kReasoningItem, kOfAnswers}, "", R"({"type":"reasoning"})");
}

void describe_answers(Description& out) {
  out.answer("Response", {kResponse});
  out.answer("ResponseError", {kError});
  out.answer("IncompleteDetails", {kIncomplete});
  out.answer("ResponseUsage", {kUsage});
  out.answer("InputTokensDetails", {kInputDetails});
  out.alias("OutputItem", kAnswer, "OutputMessageItem|OutputReasoning|OutputCall");
  out.answer("OutputMessageItem", {kStatus, kOutputMessage});
  out.answer("OutputText", {kOutputText});
  out.answer("OutputReasoning", {kStatus, kOutputReasoning});
  out.answer("ReasoningText", {kReasoningText});
  out.answer("OutputCall", {kStatus, kOutputCall});
  out.answer("ResponseEvent", {kEvent}, "`type` says which members are there.");
  out.answer("DeletedResponse", {kDeleted});
  out.answer("CancelledResponse", {kCancelled});
  out.answer("InputItems", {kInputItems});
}

}  // namespace

void describe_responses(Description& out) {
  out.begin_family("responses", "OpenAI's Responses API.");
  describe_requests(out);
  describe_answers(out);
  out.operation(
      {.method = "POST",
       .path = "/v1/responses",
       .id = "create_response",
       .about = "A response, or a stream if `stream` is true.",
       .also = "/responses",
       .kind = Operation::Kind::kGenerates,
       .request = "ResponsesRequest",
       .example = R"({"input":"What is the capital of France?","max_output_tokens":8})",
       .answer = "Response",
       .event = "ResponseEvent",
       .refusals = {ErrorKind::kTemplateError, ErrorKind::kToolError, ErrorKind::kNotFound}});
  out.operation({.method = "GET",
                 .path = "/v1/responses/{response_id}",
                 .id = "get_response",
                 .about = "A response that was kept.",
                 .answer = "Response",
                 .refusals = {ErrorKind::kNotFound}});
  out.operation({.method = "GET",
                 .path = "/v1/responses/{response_id}/input_items",
                 .id = "get_response_input_items",
                 .about = "What a kept response was an answer to: limit, order, after and include.",
                 .answer = "InputItems",
                 .refusals = {ErrorKind::kNotFound, ErrorKind::kValidation}});
  out.operation({.method = "POST",
                 .path = "/v1/responses/{response_id}/cancel",
                 .id = "cancel_response",
                 .about = "Cancels one that runs.",
                 .answer = "CancelledResponse",
                 .refusals = {ErrorKind::kNotFound,
                              ErrorKind::kValidation,
                              ErrorKind::kPayloadTooLarge,
                              ErrorKind::kUnsupportedMediaType}});
  out.operation({.method = "DELETE",
                 .path = "/v1/responses/{response_id}",
                 .id = "delete_response",
                 .about = "Forgets a response that was kept.",
                 .answer = "DeletedResponse",
                 .refusals = {ErrorKind::kNotFound}});
}

}  // namespace coxswain::openapi
