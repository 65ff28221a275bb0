#include "api/openai_parts.h"

#include "json/json.h"

namespace coxswain::api {

std::string_view openai_finish_name(ApiStyle style, FinishReason reason) {
  if (style == ApiStyle::kTgi && reason == FinishReason::kStopSequence) return "stop_sequence";
  return reason == FinishReason::kLength ? "length" : "stop";
}

void append_identity(std::string& out, const OpenAiAnswerOptions& options) {
  out += R"(,"id":)";
  json::append_quoted(out, options.id);
  out += R"(,"created":)";
  json::append_integer(out, options.created);
}

void append_served_by(std::string& out, const OpenAiAnswerOptions& options) {
  out += R"(,"model":)";
  json::append_quoted(out, options.model);
  out += R"(,"system_fingerprint":)";
  json::append_quoted(out, options.system_fingerprint);
}

Usage usage_of(std::span<const SequenceAnswer> sequences, std::size_t per_prompt) {
  Usage out;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (i % per_prompt == 0) {
      out.prompt_tokens += sequences[i].n_prompt;
      out.cached_tokens += sequences[i].n_cached;
    }
    out.completion_tokens += sequences[i].n_generated;
  }
  return out;
}

void append_usage(std::string& out, ApiStyle style, const Usage& usage) {
  out += R"({"prompt_tokens":)";
  json::append_unsigned(out, usage.prompt_tokens);
  out += R"(,"completion_tokens":)";
  json::append_unsigned(out, usage.completion_tokens);
  out += R"(,"total_tokens":)";
  json::append_unsigned(out, usage.prompt_tokens + usage.completion_tokens);
  if (style == ApiStyle::kOpenAi) {
    out += R"(,"prompt_tokens_details":{"cached_tokens":)";
    json::append_unsigned(out, usage.cached_tokens);
    out += '}';
    if (usage.reasoning_tokens) {
      out += R"(,"completion_tokens_details":{"reasoning_tokens":)";
      json::append_unsigned(out, *usage.reasoning_tokens);
      out += '}';
    }
  }
  out += '}';
}

}  // namespace coxswain::api
