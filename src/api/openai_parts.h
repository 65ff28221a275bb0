#pragma once
// Pieces of JSON that answers in OpenAI's form share. Internal to the answers.
//
// Thread rule: pure functions.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/answer.h"

namespace coxswain::api {

std::string_view openai_finish_name(ApiStyle style, FinishReason reason);

// ,"id":...,"created":...   (comma first)
void append_identity(std::string& out, const OpenAiAnswerOptions& options);
// ,"model":...,"system_fingerprint":...
void append_served_by(std::string& out, const OpenAiAnswerOptions& options);

// [{"token","logprob","bytes","top_logprobs"}, ...], `n_top` of the last; not in TGI's dialect: `bytes`.
void append_logprob_list(std::string& out,
                         ApiStyle style,
                         std::span<const OutputToken> tokens,
                         std::size_t n_top = kTopTokensMax);
// {"content":[...]}
void append_logprobs(std::string& out,
                     const OpenAiAnswerOptions& options,
                     std::span<const OutputToken> tokens);

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t cached_tokens = 0;                     // of the prompts
  std::optional<std::uint64_t> reasoning_tokens = {};  // of the completions, if they may have some
};
// Prompts are counted once however many sequences answer them; sequences come prompt by prompt.
Usage usage_of(std::span<const SequenceAnswer> sequences, std::size_t per_prompt);
void append_usage(std::string& out, ApiStyle style, const Usage& usage);

}  // namespace coxswain::api
