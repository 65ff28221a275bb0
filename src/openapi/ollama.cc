// Ollama's routes.

#include "openapi/families.h"

namespace coxswain::openapi {
namespace {

constexpr std::array kCommon{
    Member{.name = "model",
           .type = "string >= 1 <= 256",
           .about = "Any name means the served model, but for --strict-model.",
           .presence = kRequired},
    Member{"stream", "bool", "", "true"},
    Member{"format", "''|'json'|object", "The form of the answer: JSON, or a schema."},
    Member{"think", "bool|string <= 64", "For the template."},
    Member{"logprobs", "bool", "", "false"},
    Member{"top_logprobs", "u32 <= 1024", "Up to 20; above 0 only with `logprobs`.", "0"},
    Member{"keep_alive", "number|string <= 64", "Changes nothing: the model stays."},
    Member{"options", "OllamaOptions"},
};
constexpr std::array kChat{
    Member{"messages", "[OllamaMessage] <= 1024", "Without them the model is loaded."},
};
constexpr std::array kGenerate{
    Member{"prompt", "string", "Without it the model is loaded."},
    Member{"system", "string", "The message in front."},
    Member{"raw", "bool", "The prompt as it is, without the template.", "false"},
};
constexpr std::array kOptions{
    Member{"num_predict", "i32 >= -2", "Not 0; -1 and -2: all that fits.", "-1"},
    Member{"temperature", "number >= 0", "0 is greedy.", "0.8"},
    Member{"top_k", "i32 >= -1", "0 and -1 are off.", "40"},
    Member{"top_p", "number > 0 <= 1", "", "0.9"},
    Member{"typical_p", "number > 0 <= 1", "", "1"},
    Member{"presence_penalty", "number >= -2 <= 2", "Over the output.", "0"},
    Member{"frequency_penalty", "number >= -2 <= 2", "Over the output.", "0"},
    Member{"repeat_penalty", "number > 0", "Over prompt and output.", "1"},
    Member{"repeat_last_n", "i32", "0 turns repeat_penalty off; others only without it.", "-1"},
    Member{"seed",
           "integer >= -9223372036854775808 <= 18446744073709551615",
           "A negative one stands for its bits, -1 for none."},
    Member{"stop", "string|[string >= 1 <= 1024]", "At most --max-stop-sequences; cut off."},
};
// How a model is loaded was decided when the server started.
constexpr std::array kLoading{
    Member{"numa", "any", "Changes nothing."},
    Member{"num_ctx", "any", "Changes nothing."},
    Member{"num_batch", "any", "Changes nothing."},
    Member{"num_gpu", "any", "Changes nothing."},
    Member{"main_gpu", "any", "Changes nothing."},
    Member{"low_vram", "any", "Changes nothing."},
    Member{"f16_kv", "any", "Changes nothing."},
    Member{"logits_all", "any", "Changes nothing."},
    Member{"vocab_only", "any", "Changes nothing."},
    Member{"use_mmap", "any", "Changes nothing."},
    Member{"use_mlock", "any", "Changes nothing."},
    Member{"embedding_only", "any", "Changes nothing."},
    Member{"num_thread", "any", "Changes nothing."},
    Member{"num_keep", "any", "Changes nothing."},
};
constexpr std::array kMessage{
    Member{.name = "role", .type = "string <= 64", .presence = kRequired},
    Member{"content", "string|[TextPart] <= 64"},
    Member{"tool_calls", "[CalledTool]", "Of an earlier answer."},
    Member{"thinking", "any", "Of an earlier answer."},
    Member{"tool_name", "any", "Whose answer it is."},
};
constexpr std::array kShow{
    Member{"model", "string >= 1 <= 256", "Either this or `name`."},
    Member{"name", "string <= 256", "The older name of `model`."},
};

constexpr std::array kAnswered{
    Member{"model", "string"},
    Member{"created_at", "string"},
    Member{.name = "logprobs", .type = "[TokenLogprob]", .presence = kMayBeAbsent},
    Member{"done", "bool"},
    Member{.name = "done_reason",
           .type = "'stop'|'length'|'load'|'unload'",
           .about = "With `done`.",
           .presence = kMayBeAbsent},
    Member{.name = "total_duration",
           .type = "u64",
           .about = "All durations in nanoseconds.",
           .presence = kMayBeAbsent},
    Member{.name = "load_duration", .type = "u64", .presence = kMayBeAbsent},
    Member{.name = "prompt_eval_count", .type = "u32", .presence = kMayBeAbsent},
    Member{.name = "prompt_eval_duration", .type = "u64", .presence = kMayBeAbsent},
    Member{.name = "eval_count", .type = "u32", .presence = kMayBeAbsent},
    Member{.name = "eval_duration", .type = "u64", .presence = kMayBeAbsent},
};
constexpr std::array kSaid{Member{"message", "OllamaOutputMessage"}};
constexpr std::array kWritten{
    Member{"response", "string"},
    Member{.name = "thinking", .type = "string", .presence = kMayBeAbsent},
};
constexpr std::array kOutputMessage{
    Member{"role", "'assistant'"},
    Member{"content", "string"},
    Member{.name = "thinking", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "tool_calls", .type = "[OllamaToolCall]", .presence = kMayBeAbsent},
};
constexpr std::array kToolCall{Member{"id", "string"}, Member{"function", "OllamaFunctionCall"}};
constexpr std::array kFunctionCall{
    Member{"index", "u32"},
    Member{"name", "string"},
    Member{"arguments", "object"},
};
constexpr std::array kModel{
    Member{"name", "string"},
    Member{"model", "string"},
    Member{"size", "u64"},
    Member{"digest", "string"},
    Member{"details", "OllamaDetails"},
};
constexpr std::array kListed{Member{"modified_at", "string"}};
constexpr std::array kRunning{
    Member{"expires_at", "string"},
    Member{"size_vram", "u64"},
    Member{"context_length", "u64"},
};
constexpr std::array kDetails{
    Member{"parent_model", "string"},
    Member{"format", "string"},
    Member{"family", "string"},
    Member{"families", "[string]"},
    Member{"parameter_size", "string"},
    Member{"quantization_level", "string"},
};
constexpr std::array kTags{Member{"models", "[OllamaModel]"}};
constexpr std::array kPs{Member{"models", "[OllamaRunningModel]"}};
constexpr std::array kShown{
    Member{"modelfile", "string"},
    Member{"parameters", "string"},
    Member{"template", "string"},
    Member{"details", "OllamaDetails"},
    Member{"model_info", "object"},
    Member{"capabilities", "['completion'|'tools'|'thinking']"},
    Member{"modified_at", "string"},
};

void describe_documents(Description& out) {
  out.request("OllamaChatRequest",
              {kCommon, kChat, openai_tools(), scheduling()},
              "",
              R"({"model":"a","messages":[{"role":"user","content":"a"}]})");
  out.request("OllamaGenerateRequest",
              {kCommon, kGenerate, scheduling()},
              "",
              R"({"model":"a","prompt":"a"})");
  out.request("OllamaOptions", {kOptions, sampling_steps(), kLoading});
  out.request("OllamaMessage",
              {kMessage},
              "All other members reach the template.",
              R"({"role":"user","content":"a"})");
  out.request("OllamaShowRequest", {kShow}, "", R"({"model":"a"})");
  out.answer("OllamaChatAnswer", {kAnswered, kSaid});
  out.answer("OllamaGenerateAnswer", {kAnswered, kWritten});
  out.answer("OllamaOutputMessage", {kOutputMessage});
  out.answer("OllamaToolCall", {kToolCall});
  out.answer("OllamaFunctionCall", {kFunctionCall});
  out.answer("OllamaDetails", {kDetails});
  out.answer("OllamaModel", {kModel, kListed});
  out.answer("OllamaRunningModel", {kModel, kRunning});
  out.answer("OllamaTags", {kTags});
  out.answer("OllamaRunning", {kPs});
  out.answer("OllamaShown", {kShown});
}

}  // namespace

void describe_ollama(Description& out) {
  using Kind = Operation::Kind;
  out.begin_family("ollama", "Ollama's routes. Streams are lines of JSON.");
  describe_documents(out);
  out.operation(
      {.method = "POST",
       .path = "/api/chat",
       .id = "ollama_chat",
       .about = "A stream of lines, or one answer if `stream` is false.",
       .kind = Kind::kGenerates,
       .request = "OllamaChatRequest",
       .example =
           R"({"model":"demo","messages":[{"role":"user","content":"What is the capital of France?"}],"options":{"num_predict":8}})",
       .answer = "OllamaChatAnswer",
       .event = "OllamaChatAnswer",
       .event_type = "application/x-ndjson",
       .refusals = {ErrorKind::kTemplateError, ErrorKind::kToolError, ErrorKind::kNotFound}});
  out.operation(
      {.method = "POST",
       .path = "/api/generate",
       .id = "ollama_generate",
       .about = "A stream of lines, or one answer if `stream` is false.",
       .kind = Kind::kGenerates,
       .request = "OllamaGenerateRequest",
       .example =
           R"({"model":"demo","prompt":"The capital of France is","options":{"num_predict":8}})",
       .answer = "OllamaGenerateAnswer",
       .event = "OllamaGenerateAnswer",
       .event_type = "application/x-ndjson",
       .refusals = {ErrorKind::kTemplateError, ErrorKind::kNotFound}});
  out.operation({.method = "POST",
                 .path = "/api/show",
                 .id = "ollama_show",
                 .about = "What is known of the model.",
                 .kind = Kind::kTokens,
                 .request = "OllamaShowRequest",
                 .example = R"({"model":"demo"})",
                 .answer = "OllamaShown",
                 .refusals = {ErrorKind::kNotFound}});
  out.operation({.method = "GET",
                 .path = "/api/tags",
                 .id = "ollama_tags",
                 .about = "The served model.",
                 .answer = "OllamaTags"});
  out.operation({.method = "GET",
                 .path = "/api/ps",
                 .id = "ollama_ps",
                 .about = "The served model, as one that runs.",
                 .answer = "OllamaRunning"});
}

}  // namespace coxswain::openapi
