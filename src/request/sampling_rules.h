#pragma once
// The rules of SamplingParams and StoppingParams: the one place that knows which values a runner takes. Everybody who
// lets parameters in asks here: the router's validation, the service for stock routers, the check of a plan from the
// wire, the runner. A front end may allow less (TGI's routes take no top_p of 1), never more.
//
// Thread rule: pure functions.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "request/range.h"

namespace coxswain::request {

inline constexpr Range kPositive{.low = 0.0F, .low_included = false};
inline constexpr Range kProbability{.low = 0.0F, .high = 1.0F, .low_included = false};  // (0, 1]
inline constexpr Range kMinP{.low = 0.0F, .high = 1.0F, .high_included = false};        // [0, 1)
inline constexpr Range kFinite{};

// Of a list of sequences of ids (bad words, stop sequences), and of their ids together.
inline constexpr std::size_t kTokenSequencesMax = 1024;
inline constexpr std::size_t kTokenSequenceIdsMax = 16'384;
inline constexpr std::size_t kEndIdsMax = 256;
inline constexpr std::size_t kThoughtIdsMax = 64;  // that open or close a block of thoughts
inline constexpr std::size_t kGrammarBytesMax = std::size_t{8} << 20;  // compiled

struct SamplingRule {
  std::string_view field;
  float SamplingParams::*value = nullptr;
  Range range;
};

inline constexpr std::array<SamplingRule, 8> kSamplingRules{{
    {"temperature", &SamplingParams::temperature, kPositive},
    {"repetition_penalty", &SamplingParams::repetition_penalty, kPositive},
    {"frequency_penalty", &SamplingParams::relative_frequency_penalty, kFinite},
    {"frequency_penalty", &SamplingParams::frequency_penalty, kFinite},
    {"presence_penalty", &SamplingParams::presence_penalty, kFinite},
    {"top_p", &SamplingParams::top_p, kProbability},
    {"typical_p", &SamplingParams::typical_p, kProbability},
    {"min_p", &SamplingParams::min_p, kMinP},
}};

// All rules. Errors: kInvalidArgument with kind kValidation, naming the field, what is legal and what was given.
Status check_sampling(const SamplingParams& params,
                      std::uint32_t vocab_size,
                      std::size_t top_tokens_max = kTopTokensMax);

// The part of check_sampling() about the size of a compiled grammar.
Status check_grammar_size(std::size_t n_bytes);

// The part of check_sampling() about the ids around a block of thoughts.
Status check_thoughts(const ThoughtBudget& thoughts, std::uint32_t vocab_size);

// Errors: as check_sampling(). Stop strings are for check_stop_sequences() (checks.h).
Status check_stopping(const StoppingParams& stopping, std::uint32_t vocab_size);

// The part of check_sampling() about the biases: ids of the vocabulary, values that are numbers (an infinity forbids or
// forces a token).
Status check_logit_bias(std::span<const std::pair<TokenId, float>> bias, std::uint32_t vocab_size);

// The first id that is not of the vocabulary.
std::optional<TokenId> find_foreign_id(std::span<const TokenId> ids, std::uint32_t vocab_size);

}  // namespace coxswain::request
