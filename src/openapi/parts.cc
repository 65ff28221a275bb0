// What several families have.

#include <algorithm>
#include <string>
#include <vector>

#include "openapi/families.h"

namespace coxswain::openapi {
namespace {

constexpr std::string_view kFraction = "number >= 0 < 1";

constexpr std::array kSamplingSteps{
    Member{
        "min_p", kFraction, "Tokens below this part of the best one's probability are out.", "0"},
    Member{"epsilon_cutoff", kFraction, "Tokens below this probability are out.", "0"},
    Member{"eta_cutoff", kFraction, "As epsilon_cutoff, lower where the entropy is high.", "0"},
    Member{
        "top_n_sigma",
        "number",
        ">= 0, or -1 for off. Tokens further than so many deviations below the best one are out.",
        "0"},
    Member{"dynatemp_range", "number >= 0", "Temperature by entropy, in this range.", "0"},
    Member{"dynatemp_exponent", "number > 0", "How entropy becomes temperature.", "1"},
    Member{"xtc_probability", "number >= 0 <= 1", "How often XTC takes the best tokens out.", "0"},
    Member{"xtc_threshold", "number > 0 <= 1", "Probability from which XTC does so.", "0.1"},
    Member{"dry_multiplier", "number >= 0", "Penalty for repeated runs of tokens.", "0"},
    Member{"dry_base", "number >= 1", "How that penalty grows with the length of the run.", "1.75"},
    Member{"dry_allowed_length", "u32 >= 1", "Runs up to this length are free.", "2"},
    Member{"dry_penalty_last_n", "i32 >= -1", "Last tokens that are looked at, -1: all.", "-1"},
    Member{"dry_sequence_breakers", "[string >= 1 <= 256] <= 64", "Texts that end a run."},
    Member{"watermark", "bool", "TGI's watermark.", "false"},
    Member{"no_repeat_ngram_size", "u32 <= 64", "No n-gram of this size comes twice; 0: off.", "0"},
    Member{"bad_words", "[string >= 1] <= 512", "Words that are not written."},
    Member{"allowed_token_ids", "[i32 >= 0] >= 1", "No other tokens, but for the end tokens."},
    Member{"samplers",
           "['dry'|'top_n_sigma'|'top_k'|'typical_p'|'typ_p'|'top_p'|'min_p'|'epsilon_cutoff'|"
           "'eta_cutoff'|'xtc'|'temperature'] >= 1 <= 10",
           "The steps that run, in this order, each once."},
};

constexpr std::array kScheduling{
    Member{"priority", "i32 >= -100 <= 100", "The higher goes first.", "0"},
    Member{"timeout_ms", "u32 >= 1 <= 86400000", "From the arrival; then 504."},
    Member{"cache_salt", "string >= 1 <= 256", "Cached prefixes are shared by equal salts only."},
};

constexpr std::array kOpenAiTools{
    Member{"tools", "[Tool] <= 1024"},
    Member{"tool_choice",
           "string|ToolChoice",
           "auto, none, required, or the name of a function.",
           R"("auto")"},
    Member{"parallel_tool_calls", "bool", "", "true"},
    Member{"tool_prompt", "string <= 16384", "TGI's: put behind the last message."},
};
constexpr std::array kTool{
    Member{"type", "'function'"},
    Member{.name = "function", .type = "FunctionDefinition", .presence = kRequired},
};
constexpr std::array kFunctionDefinition{
    Member{.name = "name", .type = "string >= 1 <= 256", .presence = kRequired},
    Member{"description", "any"},
    Member{"parameters", "object", "A schema."},
    Member{"arguments", "object", "Another name of parameters."},
    Member{"strict", "bool", "Calls follow the schema."},
};
constexpr std::array kToolChoice{
    Member{"type", "'function'"},
    Member{.name = "function", .type = "FunctionName", .presence = kRequired},
};
constexpr std::array kFunctionName{
    Member{.name = "name", .type = "string <= 256", .presence = kRequired},
};
constexpr std::array kNamedSchema{
    Member{"name", "string <= 256"},
    Member{"description", "string <= 16384"},
    Member{"strict", "bool", "Every schema is enforced."},
    Member{.name = "schema", .type = "object", .presence = kRequired},
};

constexpr std::array kNativeError{
    Member{"error", "string"},
    Member{"error_type", "ErrorKind"},
};

constexpr std::array kOpenAiErrorBody{
    Member{"message", "string"},
    Member{"type", "'invalid_request_error'|'rate_limit_error'|'server_error'"},
    Member{"param", "string|null", "The field at fault."},
    Member{"code", "ErrorCode"},
    Member{.name = "http_status_code",
           .type = "integer",
           .about = "In streams.",
           .presence = kMayBeAbsent},
};
constexpr std::array kOpenAiError{
    Member{"error", "OpenAiErrorBody"},
    Member{.name = "error_type",
           .type = "ErrorKind",
           .about = "Not in streams.",
           .presence = kMayBeAbsent},
};

constexpr std::array kAnthropicErrorBody{
    Member{"type",
           "'invalid_request_error'|'authentication_error'|'not_found_error'|'request_too_large'|"
           "'timeout_error'|'overloaded_error'|'api_error'"},
    Member{"message", "string"},
};
constexpr std::array kAnthropicError{
    Member{"type", "'error'"},
    Member{"error", "AnthropicErrorBody"},
    Member{"request_id", "string|null"},
};

constexpr std::array kOllamaError{Member{"error", "string"}};

// TGI's streams have an object, too.
constexpr std::array kTgiStreamError{Member{"error", "TgiStreamErrorBody"}};
constexpr std::array kTgiStreamErrorBody{
    Member{"message", "string"},
    Member{"http_status_code", "integer"},
};

std::string one_of(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view word : words) {
    out += out.empty() ? "'" : "|'";
    out += word;
    out += '\'';
  }
  return out;
}

}  // namespace

std::span<const Member> sampling_steps() {
  return kSamplingSteps;
}

std::span<const Member> scheduling() {
  return kScheduling;
}

std::span<const Member> openai_tools() {
  return kOpenAiTools;
}

void describe_parts(Description& out, api::ApiStyle v1) {
  constexpr auto kAnswer = Object::Side::kAnswer;
  out.request("Tool", {kTool}, "", R"({"function":{"name":"a"}})");
  out.request("FunctionDefinition", {kFunctionDefinition}, "", R"({"name":"a"})");
  out.request("ToolChoice", {kToolChoice}, "", R"({"function":{"name":"a"}})");
  out.request("FunctionName", {kFunctionName}, "", R"({"name":"a"})");
  out.request("NamedSchema", {kNamedSchema}, "", R"({"schema":{}})");
  std::vector<std::string_view> kinds;
  for (const api::ErrorRow& row : api::error_rows()) {
    if (std::ranges::find(kinds, row.name) == kinds.end()) kinds.push_back(row.name);
  }
  out.alias("ErrorKind", kAnswer, one_of(kinds));
  out.answer("ErrorResponse", {kNativeError}, "An error of the native routes.");
  out.answer("OpenAiErrorBody", {kOpenAiErrorBody});
  out.answer("OpenAiError", {kOpenAiError}, "An error in OpenAI's form.");
  out.alias("ErrorCode", kAnswer, one_of(api::openai_codes()));
  out.answer("AnthropicErrorBody", {kAnthropicErrorBody});
  out.answer("AnthropicError", {kAnthropicError}, "An error in Anthropic's form.");
  out.answer("OllamaError", {kOllamaError}, "An error in Ollama's form.");
  if (v1 == api::ApiStyle::kTgi) {
    out.answer("TgiStreamErrorBody", {kTgiStreamErrorBody});
    out.answer("TgiStreamError", {kTgiStreamError}, "What ends a stream that fails.");
  }
}

}  // namespace coxswain::openapi
