#pragma once
// CompletionLogprobs: what /v1/completions tells about each token, in OpenAI's older shape:
// {"tokens":[...],"token_logprobs":[...],"top_logprobs":[{text: logprob}],"text_offset":[...]}.
//
// The token itself is always among its top log-probabilities, with the very same number, so that a
// client may ask whether it was the best one. Texts in which two alternatives agree stand once,
// with the higher number. The first token of a prompt has null for both, and a token has null for
// its alternatives if the runner does not tell them. text_offset counts characters of the choice's
// text; special tokens and those that only begin a character add none.
//
// Thread rule: one thread. Memory: what was added since the last take().

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/step_runner.h>

namespace coxswain::api {

class CompletionLogprobs {
 public:
  // `n_top`: alternatives beside the token itself, at most.
  explicit CompletionLogprobs(std::uint32_t n_top) : n_top_(n_top) {}

  // `pieces`: what each token adds to the text. REQUIRES: as many as prompt tokens.
  void add_prompt(std::span<const PromptToken> prompt, std::span<const std::string> pieces);
  void add(std::span<const OutputToken> tokens);
  // The JSON object of all that was added since the last call; offsets go on.
  std::string take();

 private:
  void append(std::string_view text, float logprob, std::size_t n_characters);
  void append_top(TokenId id,
                  std::string_view text,
                  float logprob,
                  std::span<const TokenAlternative> alternatives);

  const std::uint32_t n_top_;
  std::size_t offset_ = 0;  // characters
  // Elements of the four arrays, with commas between.
  std::string tokens_;
  std::string logprobs_;
  std::string top_;
  std::string offsets_;
};

}  // namespace coxswain::api
