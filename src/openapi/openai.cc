// OpenAI's routes: chats, completions and models.

#include "openapi/families.h"

namespace coxswain::openapi {
namespace {

constexpr auto kAnswer = Object::Side::kAnswer;

constexpr std::array kModel{
    Member{"model", "string <= 256", "Any name means the served model, but for --strict-model."},
};
constexpr std::array kShared{
    Member{"max_tokens", "u32", "Without it: all that fits."},
    Member{"n_predict", "i32 >= -1", "llama-server's name of max_tokens; -1: all that fits.", "-1"},
    Member{"min_tokens", "u32", "Tokens before one that ends the answer; <= max_tokens.", "0"},
    Member{"temperature", "number >= 0", "0 is greedy.", "1"},
    Member{"top_p", "number > 0 <= 1", "", "1"},
    Member{"top_k", "i32 >= -1", "0 and -1 are off.", "-1"},
    Member{"typical_p", "number > 0 <= 1", "", "1"},
    Member{"frequency_penalty", "number >= -2 <= 2", "Over the output.", "0"},
    Member{"presence_penalty", "number >= -2 <= 2", "Over the output.", "0"},
    Member{"repetition_penalty", "number > 0", "Over prompt and output.", "1"},
    Member{"repeat_penalty", "number > 0", "llama-server's name of repetition_penalty."},
    Member{"repeat_last_n", "i32", "Beside repeat_penalty -1, or 0, which turns it off.", "-1"},
    Member{"logit_bias", "{number >= -100 <= 100} <= 1024|[any] <= 0", "By token id."},
    Member{"n", "u32 >= 1", "Answers, 1 to --n-max.", "1"},
    Member{"seed",
           "integer >= -9223372036854775808 <= 18446744073709551615",
           "A negative one stands for its bits, -1 for none."},
    Member{"stop", "string|[string >= 1 <= 1024]", "At most --max-stop-sequences; cut off."},
    Member{"stop_token_ids", "[i32 >= 0] <= 128", "Tokens that end the answer; cut off."},
    Member{"include_stop_str_in_output", "bool", "What stopped the answer stays in it.", "false"},
    Member{"skip_special_tokens", "bool", "false: special tokens stand in the text.", "true"},
    Member{"return_token_ids", "bool", "The ids of the prompt and of what was generated.", "false"},
    Member{"prompt_logprobs", "u32", "So many alternatives of each token of the prompt."},
    Member{"timings_per_token", "bool", "`timings`, in a stream in every chunk.", "false"},
    Member{"truncate_prompt_tokens", "i32 >= -1", "Last tokens of the prompt kept; -1: that fit."},
    Member{"cache_prompt", "bool", "false: no cached prefix is taken, and none left.", "true"},
    Member{"ignore_eos", "bool", "For load tests.", "false"},
    Member{"stream", "bool", "", "false"},
    Member{"stream_options", "StreamOptions"},
    Member{"response_format", "ResponseFormat", "The form of the answer."},
    Member{"guided_json", "object|string", "A schema or its text."},
    Member{"guided_regex", "string", "The whole answer matches."},
    Member{"guided_choice", "[string] >= 1", "One of them."},
    Member{"guided_grammar", "string", "GBNF or Lark."},
    Member{"structured_outputs", "StructuredOutputs", "vLLM's name for forms."},
};
constexpr std::array kLabels{
    Member{"user", "string <= 256", "A label."},
    Member{"safety_identifier", "string <= 256", "A label."},
    Member{"prompt_cache_key", "string <= 256", "A label."},
    Member{"metadata", "any", "A label."},
};
constexpr std::array kChatLogprobs{
    Member{"logprobs", "bool", "", "false"},
    Member{"top_logprobs", "u32 <= 1024", "Up to 20; above 0 only with `logprobs`.", "0"},
};
constexpr std::array kChat{
    Member{.name = "messages", .type = "[Message] >= 1 <= 1024", .presence = kRequired},
    Member{"max_completion_tokens", "u32 >= 1", "The newer name of max_tokens."},
    Member{"documents", "[any]", "For the template."},
    Member{"chat_template_kwargs", "object", "For the template."},
    Member{"add_generation_prompt", "bool", "Begin a new answer behind the last message."},
    Member{"continue_final_message", "bool", "Go on with the last message."},
    Member{"reasoning_effort", "string <= 64", "For the template."},
    Member{"enable_thinking", "bool", "For the template."},
    Member{"thinking_token_budget", "i32 >= -1", "Tokens of thoughts at most; -1: any number."},
    Member{"thinking_budget", "i32 >= -1", "Another name of thinking_token_budget."},
    Member{"thinking_budget_tokens", "i32 >= -1", "Another name of thinking_token_budget."},
};
constexpr std::array kCompletion{
    Member{.name = "prompt",
           .type = "string|[string] >= 1|[i32 >= 0] >= 1|[[i32 >= 0] >= 1] >= 1",
           .about = "At most --max-client-batch-size of them.",
           .presence = kRequired},
    Member{"logprobs", "u32 <= 1024", "Of every token, with so many alternatives, up to 20."},
    Member{"echo", "bool", "The prompt in front.", "false"},
    Member{"best_of", "u64 >= 1", "Of so many answers, n to --max-best-of, the n best come."},
};

constexpr std::array kStreamOptions{
    Member{"include_usage", "bool", "A last chunk with `usage`.", "false"},
};
constexpr std::array kResponseFormat{
    Member{.name = "type",
           .type = "'text'|'json'|'json_object'|'json_schema'|'regex'",
           .presence = kRequired},
    Member{"json_schema", "NamedSchema", "Of json_schema."},
    Member{"value", "any", "TGI's form: a schema, its text or a pattern."},
};
constexpr std::array kStructuredOutputs{
    Member{"json", "object|string"},
    Member{"regex", "string"},
    Member{"choice", "[string] >= 1"},
    Member{"grammar", "string"},
    Member{"json_object", "bool"},
    Member{"disable_any_whitespace", "bool"},
    Member{"disable_additional_properties", "bool"},
    Member{"disable_fallback", "bool", "Changes nothing."},
};
constexpr std::array kMessage{
    Member{.name = "role", .type = "string <= 64", .presence = kRequired},
    Member{"content", "string|[TextPart] <= 64", "May be null or absent beside tool_calls alone."},
    Member{"tool_calls", "[CalledTool]", "Of an earlier answer."},
};
constexpr std::array kTextPart{
    Member{.name = "type", .type = "'text'", .presence = kRequired},
    Member{.name = "text", .type = "string", .presence = kRequired},
};
constexpr std::array kCalledTool{
    Member{"type", "'function'"},
    Member{.name = "function", .type = "CalledFunction", .presence = kRequired},
};
constexpr std::array kCalledFunction{
    Member{.name = "name", .type = "string", .presence = kRequired},
    Member{.name = "arguments", .type = "string|object", .presence = kRequired},
};

constexpr std::array kServed{
    Member{"id", "string"},
    Member{"created", "integer >= 0", "Seconds since 1970."},
    Member{"model", "string"},
    Member{"system_fingerprint", "string", "The version."},
};
constexpr std::array kUsage{
    Member{"prompt_tokens", "u32"},
    Member{"completion_tokens", "u64"},
    Member{"total_tokens", "u64"},
    Member{
        .name = "prompt_tokens_details", .type = "PromptTokensDetails", .presence = kMayBeAbsent},
    Member{.name = "completion_tokens_details",
           .type = "CompletionTokensDetails",
           .presence = kMayBeAbsent},
};
constexpr std::array kCached{Member{"cached_tokens", "u64"}};
constexpr std::array kReasoned{Member{"reasoning_tokens", "u64"}};
constexpr std::array kTopLogprob{
    Member{"token", "string"},
    Member{"logprob", "number|null"},
    Member{.name = "bytes", .type = "[integer >= 0 <= 255]", .presence = kMayBeAbsent},
};
constexpr std::array kAlternatives{Member{"top_logprobs", "[TopLogprob]"}};
constexpr std::array kContentLogprobs{Member{"content", "[TokenLogprob]"}};

constexpr std::array kChatCompletion{
    Member{"object", "'chat.completion'"},
    Member{"choices", "[ChatChoice] >= 1"},
    Member{"usage", "Usage"},
    Member{.name = "prompt_logprobs", .type = "[{PromptLogprob}|null]", .presence = kMayBeAbsent},
    Member{.name = "prompt_token_ids", .type = "[i32 >= 0]", .presence = kMayBeAbsent},
    Member{.name = "timings", .type = "Timings", .presence = kMayBeAbsent},
};
constexpr std::array kChatChoice{
    Member{"index", "u32"},
    Member{"message", "OutputMessage"},
    Member{"logprobs", "ChatLogprobs|null"},
    Member{"finish_reason", "ChatFinishReason"},
    Member{.name = "token_ids", .type = "[i32 >= 0]", .presence = kMayBeAbsent},
};
constexpr std::array kOutputMessage{
    Member{"role", "'assistant'"},
    Member{.name = "content",
           .type = "string|null",
           .about = "Null beside calls alone.",
           .presence = kMayBeAbsent},
    Member{.name = "reasoning_content", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "reasoning", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "tool_calls", .type = "[ToolCall]", .presence = kMayBeAbsent},
};
constexpr std::array kToolCall{
    Member{"id", "string"},
    Member{"type", "'function'"},
    Member{"function", "FunctionCall"},
};
constexpr std::array kFunctionCall{
    Member{"name", "string"},
    Member{"arguments", "string", "The text of a JSON object."},
};
constexpr std::array kChatChunk{
    Member{"object", "'chat.completion.chunk'"},
    Member{"choices", "[ChunkChoice]"},
    Member{"usage", "Usage|null"},
    Member{.name = "prompt_logprobs", .type = "[{PromptLogprob}|null]", .presence = kMayBeAbsent},
    Member{.name = "prompt_token_ids", .type = "[i32 >= 0]", .presence = kMayBeAbsent},
    Member{.name = "timings", .type = "Timings", .presence = kMayBeAbsent},
};
constexpr std::array kChunkChoice{
    Member{"index", "u32"},
    Member{"delta", "Delta"},
    Member{"logprobs", "ChatLogprobs|null"},
    Member{"finish_reason", "ChatFinishReason|null"},
    Member{.name = "token_ids", .type = "[i32 >= 0]", .presence = kMayBeAbsent},
};
constexpr std::array kDelta{
    Member{.name = "role", .type = "'assistant'", .presence = kMayBeAbsent},
    Member{.name = "content", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "reasoning_content", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "reasoning", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "tool_calls", .type = "[ToolCallDelta]|null", .presence = kMayBeAbsent},
};
constexpr std::array kToolCallDelta{
    Member{"index", "u32"},
    Member{.name = "id", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "type", .type = "'function'", .presence = kMayBeAbsent},
    Member{"function", "FunctionDelta"},
};
constexpr std::array kFunctionDelta{
    Member{.name = "name", .type = "string|null", .presence = kMayBeAbsent},
    Member{"arguments", "string"},
};

constexpr std::array kTextCompletion{
    Member{"object", "'text_completion'"},
    Member{"choices", "[CompletionChoice] >= 1"},
    Member{"usage", "Usage"},
    Member{.name = "timings", .type = "Timings", .presence = kMayBeAbsent},
};
constexpr std::array kCompletionChunk{
    Member{"object", "'text_completion'"},
    Member{"choices", "[CompletionChoice]"},
    Member{.name = "usage", .type = "Usage|null", .presence = kMayBeAbsent},
    Member{.name = "timings", .type = "Timings", .presence = kMayBeAbsent},
};
constexpr std::array kCompletionChoice{
    Member{"index", "u32"},
    Member{"text", "string"},
    Member{"logprobs", "CompletionLogprobs|null"},
    Member{"finish_reason", "CompletionFinishReason|null", "Null before the end of a stream."},
    Member{.name = "token_ids", .type = "[i32 >= 0]", .presence = kMayBeAbsent},
    Member{.name = "prompt_logprobs", .type = "[{PromptLogprob}|null]", .presence = kMayBeAbsent},
    Member{.name = "prompt_token_ids", .type = "[i32 >= 0]", .presence = kMayBeAbsent},
};
constexpr std::array kCompletionLogprobs{
    Member{"tokens", "[string]"},
    Member{"token_logprobs", "[number|null]"},
    Member{"top_logprobs", "[{number|null}|null]"},
    Member{"text_offset", "[u64]", "Characters."},
};

// Of a token of the prompt, by id.
constexpr std::array kPromptLogprob{
    Member{"logprob", "number"},
    Member{"rank", "u32|null", "1 is the best; null: none of the alternatives."},
    Member{"decoded_token", "string"},
};
constexpr std::array kTimings{
    Member{"cache_n", "u64", "Tokens of the prompt that were there; prompt_n were computed."},
    Member{"prompt_n", "u64"},
    Member{"prompt_ms", "number"},
    Member{"prompt_per_token_ms", "number"},
    Member{"prompt_per_second", "number"},
    Member{"predicted_n", "u64"},
    Member{"predicted_ms", "number"},
    Member{"predicted_per_token_ms", "number"},
    Member{"predicted_per_second", "number"},
    Member{.name = "draft_n", .type = "u64", .presence = kMayBeAbsent},
    Member{.name = "draft_n_accepted", .type = "u64", .presence = kMayBeAbsent},
};

constexpr std::array kModelObject{
    Member{"id", "string"},
    Member{"object", "'model'"},
    Member{"created", "integer >= 0"},
    Member{"owned_by", "string"},
    Member{.name = "max_model_len", .type = "u32", .about = "Tokens.", .presence = kMayBeAbsent},
};
constexpr std::array kModelList{
    Member{"object", "'list'"},
    Member{"data", "[Model]"},
};
constexpr std::array kAnthropicModel{
    Member{"id", "string"},
    Member{"type", "'model'"},
    Member{"display_name", "string"},
    Member{"created_at", "string"},
};
constexpr std::array kAnthropicModelList{
    Member{"data", "[AnthropicModel]"},
    Member{"has_more", "bool"},
    Member{"first_id", "string"},
    Member{"last_id", "string"},
};
constexpr std::array kChatTokenize{
    Member{"tokenize_response", "TokenizeResponse"},
    Member{"templated_text", "string"},
};
constexpr std::array kCancelled{
    Member{"id", "string"},
    Member{"object", "'request'"},
    Member{"cancelled", "bool"},
};

void describe_requests(Description& out) {
  out.request("ChatRequest",
              {kModel,
               kChat,
               kShared,
               kChatLogprobs,
               openai_tools(),
               sampling_steps(),
               scheduling(),
               kLabels},
              "",
              R"({"messages":[{"role":"user","content":"a"}]})");
  out.request("CompletionRequest",
              {kModel, kCompletion, kShared, sampling_steps(), scheduling(), kLabels},
              "",
              R"({"prompt":"a"})");
  out.request("StreamOptions", {kStreamOptions});
  out.request("ResponseFormat",
              {kResponseFormat},
              "",
              R"({"type":"json_schema","json_schema":{"schema":{}}})");
  out.request("StructuredOutputs", {kStructuredOutputs}, "One of the first five members.");
  out.request("Message",
              {kMessage},
              "All other members reach the template.",
              R"({"role":"user","content":"a"})");
  out.request("TextPart", {kTextPart}, "", R"({"type":"text","text":"a"})");
  out.request("CalledTool", {kCalledTool}, "", R"({"function":{"name":"a","arguments":"{}"}})");
  out.request("CalledFunction", {kCalledFunction}, "", R"({"name":"a","arguments":"{}"})");
}

void describe_answers(Description& out, api::ApiStyle v1) {
  const bool tgi = v1 == api::ApiStyle::kTgi;
  out.answer("Usage", {kUsage});
  out.answer("PromptTokensDetails", {kCached});
  out.answer("CompletionTokensDetails", {kReasoned});
  out.answer("TopLogprob", {kTopLogprob});
  out.answer("TokenLogprob", {kTopLogprob, kAlternatives});
  out.answer("ChatLogprobs", {kContentLogprobs});
  out.alias("ChatFinishReason",
            kAnswer,
            tgi ? "'stop'|'length'|'stop_sequence'" : "'stop'|'length'|'tool_calls'");
  out.answer("ChatCompletion", {kServed, kChatCompletion});
  out.answer("ChatChoice", {kChatChoice});
  out.answer("OutputMessage", {kOutputMessage});
  out.answer("ToolCall", {kToolCall});
  out.answer("FunctionCall", {kFunctionCall});
  out.answer("ChatCompletionChunk", {kServed, kChatChunk});
  out.answer("ChunkChoice", {kChunkChoice});
  out.answer("Delta", {kDelta});
  out.answer("ToolCallDelta", {kToolCallDelta});
  out.answer("FunctionDelta", {kFunctionDelta});
  out.alias("CompletionFinishReason",
            kAnswer,
            tgi ? "'stop'|'length'|'stop_sequence'|'eos_token'|''" : "'stop'|'length'");
  out.answer("Completion", {kServed, kTextCompletion});
  out.answer("CompletionChunk", {kServed, kCompletionChunk});
  out.answer("CompletionChoice", {kCompletionChoice});
  out.answer("CompletionLogprobs", {kCompletionLogprobs});
  out.answer("PromptLogprob", {kPromptLogprob});
  out.answer("Timings", {kTimings});
  out.answer("Model", {kModelObject});
  out.answer("ModelList", {kModelList});
  out.answer("AnthropicModel", {kAnthropicModel});
  out.answer("AnthropicModelList", {kAnthropicModelList});
  out.answer("ChatTokenizeResponse", {kChatTokenize});
  out.answer("CancelledRequest", {kCancelled});
}

}  // namespace

void describe_openai(Description& out, api::ApiStyle v1) {
  using Kind = Operation::Kind;
  out.begin_family(
      "openai",
      "OpenAI's routes. Streams end with `data: [DONE]`. Those of /v1/chat/completions, "
      "/v1/completions, /v1/responses and /v1/models are there without /v1, too.");
  describe_requests(out);
  describe_answers(out, v1);
  constexpr std::string_view kExample =
      R"({"messages":[{"role":"user","content":"What is the capital of France?"}],"max_tokens":8})";
  out.operation(
      {.method = "POST",
       .path = "/v1/chat/completions",
       .id = "chat_completions",
       .about = "A chat completion, or a stream if `stream` is true.",
       .also = "/chat/completions",
       .kind = Kind::kGenerates,
       .request = "ChatRequest",
       .example = kExample,
       .answer = "ChatCompletion",
       .event = "ChatCompletionChunk",
       .last_data = "[DONE]",
       .refusals = {ErrorKind::kTemplateError, ErrorKind::kToolError, ErrorKind::kNotFound}});
  out.operation({.method = "POST",
                 .path = "/v1/completions",
                 .id = "completions",
                 .about = "A text completion, or a stream if `stream` is true.",
                 .also = "/completions",
                 .kind = Kind::kGenerates,
                 .request = "CompletionRequest",
                 .example = R"({"prompt":"The capital of France is","max_tokens":8})",
                 .answer = "Completion",
                 .event = "CompletionChunk",
                 .last_data = "[DONE]",
                 .refusals = {ErrorKind::kNotFound}});
  out.operation({.method = "DELETE",
                 .path = "/v1/requests/{id}",
                 .id = "cancel_request",
                 .about = "Cancels what runs under an x-request-id, or the id of its answer.",
                 .answer = "CancelledRequest",
                 .refusals = {ErrorKind::kNotFound}});
  out.operation(
      {.method = "GET",
       .path = "/v1/models",
       .id = "openai_get_model_info",
       .about = "The served model, in Anthropic's form with the header anthropic-version.",
       .also = "/models",
       .access = Operation::Access::kOpen,
       .answer = "ModelList|AnthropicModelList"});
  out.operation({.method = "GET",
                 .path = "/v1/models/{model}",
                 .id = "get_model",
                 .about = "The same object alone.",
                 .also = "/models/{model}",
                 .answer = "Model|AnthropicModel",
                 .refusals = {ErrorKind::kNotFound}});
  out.operation(
      {.method = "POST",
       .path = "/chat_tokenize",
       .id = "get_chat_tokenize",
       .about = "The prompt of a chat and its tokens.",
       .kind = Kind::kTokens,
       .request = "ChatRequest",
       .example = kExample,
       .answer = "ChatTokenizeResponse",
       .refusals = {ErrorKind::kTemplateError, ErrorKind::kToolError, ErrorKind::kNotFound}});
}

}  // namespace coxswain::openapi
