#pragma once
// Extras: what clients of vLLM and llama-server ask to have beside an answer in OpenAI's form.
//
// Thread rule: values and pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain::api {

struct SequenceAnswer;

struct Extras {
  bool token_ids = false;  // of the prompt and of what was generated
  // Log-probabilities of the prompt's tokens, each with so many alternatives.
  std::optional<std::uint32_t> n_prompt_logprobs;
  bool timings = false;

  bool tells_prompt() const { return token_ids || n_prompt_logprobs; }
};

// All with a comma in front, and nothing where it was not asked for.

// ,"token_ids":[...]
void append_token_ids(std::string& out, const Extras& extras, std::span<const OutputToken> tokens);
// ,"prompt_logprobs":[null,{"ID":{"logprob","rank","decoded_token"},...},...],"prompt_token_ids":[...]
// The rank of a token that is none of its own alternatives is null.
void append_prompt(std::string& out,
                   const Extras& extras,
                   std::span<const PromptToken> prompt,
                   std::span<const TokenId> ids);
// ,"timings":{...}   Of all `sequences` so far: they come prompt by prompt, and a prompt counts once. Of times the
// longest counts, for sequences run side by side. REQUIRES: at least one.
void append_timings(std::string& out,
                    const Extras& extras,
                    std::span<const SequenceAnswer> sequences,
                    std::size_t per_prompt);

}  // namespace coxswain::api
