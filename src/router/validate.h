#pragma once
// validate(): the only way from a client's document to work for the engine.
//
// A ValidRequest has token ids inside the vocabulary, lengths inside the limits, legal sampling
// parameters and a seed for each sequence. The same checks in the same order serve every route
// (docs/api.md, "Checks"); routes below /v1 differ in these points only: temperature 0 is greedy,
// top_p and typical_p may be 1, penalties are OpenAI's, and refusals are worded as wording.h says.
//
// Thread rule: a Validator is immutable but for the grammars that it keeps compiled, which its compiler guards;
// validate() may be called from any thread and may take as long as tokenising the text and compiling a grammar.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "api/documents.h"
#include "api/errors.h"
#include "batch/engine.h"
#include "grammar/compiler.h"
#include "request/checks.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::router {

struct ValidationLimits : request::RequestLimits {
  // Texts up to this size are counted to the end, so that a refusal can say how long they are.
  std::size_t exact_count_bytes_max = std::size_t{256} << 10;
  std::vector<TokenId> eos_token_ids = {};  // the model's
  bool allows_grammars = true;              // --disable-grammar-support
  // Shards take grammars as regular expressions alone (generate.v3).
  bool grammars_are_patterns = false;
};

// A text with how to encode it. The spans must be sorted and disjoint.
struct TextPrompt {
  std::string_view text;
  bool add_special_tokens = true;
  std::span<const TextSpan> untrusted = {};
};

struct ValidationInput {
  api::ApiStyle style = api::ApiStyle::kNative;
  bool stream = false;
  const api::Parameters* parameters = nullptr;
  // One of the two: the text, or ids if `ids` is set.
  TextPrompt text;
  const std::vector<TokenId>* ids = nullptr;
  std::string_view prompt_field = "inputs";  // where this route has the prompt, for error bodies
  bool prompt_logprobs = false;              // beside those that the parameters ask for
};

class ValidRequest {
 public:
  std::uint32_t input_length() const { return static_cast<std::uint32_t>(prompt_.size()); }
  const std::vector<TokenId>& prompt() const { return prompt_; }
  const SamplingParams& sampling() const { return sampling_; }
  const StoppingParams& stopping() const { return stopping_; }
  bool prompt_logprobs() const { return prompt_logprobs_; }
  // Independent sequences: best_of on native routes, n below /v1.
  std::size_t n_sequences() const { return seeds_.size(); }
  std::uint64_t seed(std::size_t sequence) const { return seeds_[sequence]; }

  // The engine's request for all of them; deadlines are the caller's to set.
  batch::GenerationRequest engine_request(RequestId id) const;

 private:
  friend class Validator;
  ValidRequest() = default;

  std::vector<TokenId> prompt_;
  SamplingParams sampling_;
  StoppingParams stopping_;
  bool prompt_logprobs_ = false;
  std::vector<std::uint64_t> seeds_;
};

class Validator {
 public:
  using SeedSource = std::function<std::uint64_t()>;  // any thread

  Validator(ValidationLimits limits,
            std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
            SeedSource draw_seed);

  // Errors: kInvalidArgument with kind kValidation, naming the field as this route calls it.
  Result<ValidRequest> validate(const ValidationInput& input) const;

  // The same checks where nothing is generated: all but those of the prompt and of the form of the answer.
  Status check_parameters(api::ApiStyle style, const api::Parameters& parameters) const;

  // Whether there are as many as a request may have, and the vocabulary has them. Errors: as above.
  Status check_ids(const std::vector<TokenId>& ids, std::string_view field) const;

  const ValidationLimits& limits() const { return limits_; }
  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  Result<SamplingParams> sampling_of(const ValidationInput& input) const;
  Status check_completions_best_of(const api::Parameters& parameters, bool stream) const;
  Status check_native_best_of(const api::Parameters& parameters, bool stream) const;
  Status check_sequences(const ValidationInput& input) const;
  Status check_sampling(const ValidationInput& input) const;
  Status check_stopping(const ValidationInput& input) const;
  Status set_stopping(const ValidationInput& input, ValidRequest& out) const;
  Status check_others(const ValidationInput& input) const;
  Result<std::optional<std::uint64_t>> prompt_tokens_kept(const ValidationInput& input) const;
  Result<std::vector<TokenId>> tokenize(const ValidationInput& input) const;
  Status check_length(const ValidationInput& input, std::size_t n_tokens, bool exact) const;
  Result<std::vector<std::vector<TokenId>>> tokenize_bad_words(
      const std::vector<std::string>& words) const;
  Result<CompiledGrammar> compile_grammar(const ValidationInput& input) const;

  ValidationLimits limits_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  SeedSource draw_seed_;
  // For all routes: what one has compiled, the others find.
  std::unique_ptr<grammar::Compiler> grammars_;
};

}  // namespace coxswain::router
