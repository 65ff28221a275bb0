#include "api/openai_parts.h"

#include <algorithm>

#include "json/json.h"

namespace coxswain::api {
namespace {

// "token":...,"logprob":...,"bytes":[...]    The bytes are UTF-8, those of the text alone; not in TGI's dialect.
void append_token(std::string& out, ApiStyle style, std::string_view text, float logprob) {
  out += R"("token":)";
  json::append_quoted(out, text);
  out += R"(,"logprob":)";
  json::append_real32(out, logprob);
  if (style != ApiStyle::kOpenAi) return;
  out += R"(,"bytes":[)";
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i > 0) out += ',';
    json::append_unsigned(out, static_cast<unsigned char>(text[i]));
  }
  out += ']';
}

// {"token":...,"logprob":...,"bytes":[...],"top_logprobs":[...]}
void append_logprob(std::string& out, ApiStyle style, const OutputToken& token, std::size_t n_top) {
  out += '{';
  append_token(out, style, token.text, token.logprob);
  out += R"(,"top_logprobs":[)";
  for (std::size_t i = 0; i < std::min(n_top, token.alternatives.size()); ++i) {
    if (i > 0) out += ',';
    out += '{';
    append_token(out, style, token.alternatives[i].text, token.alternatives[i].logprob);
    out += '}';
  }
  out += "]}";
}

}  // namespace

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

void append_logprobs(std::string& out,
                     const OpenAiAnswerOptions& options,
                     std::span<const OutputToken> tokens) {
  out += R"({"content":)";
  append_logprob_list(out, options.style, tokens, options.n_top_logprobs);
  out += '}';
}

void append_logprob_list(std::string& out,
                         ApiStyle style,
                         std::span<const OutputToken> tokens,
                         std::size_t n_top) {
  out += '[';
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_logprob(out, style, tokens[i], n_top);
  }
  out += ']';
}

}  // namespace coxswain::api
