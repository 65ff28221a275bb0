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
inline constexpr Range kNotNegative{.low = 0.0F};
inline constexpr Range kShare{.low = 0.0F, .high = 1.0F};  // [0, 1]
inline constexpr Range kDryBase{.low = 1.0F};
inline constexpr Range kFinite{};

// Of a list of sequences of ids (bad words, stop sequences), and of their ids together.
inline constexpr std::size_t kTokenSequencesMax = 1024;
inline constexpr std::size_t kTokenSequenceIdsMax = 16'384;
inline constexpr std::size_t kEndIdsMax = 256;
inline constexpr std::size_t kThoughtIdsMax = 64;  // that open or close a block of thoughts
// Of dry_sequence_breakers: how many, and the bytes of one.
inline constexpr std::size_t kDryBreakersMax = 64;
inline constexpr std::size_t kDryBreakerBytesMax = 256;
inline constexpr std::size_t kGrammarBytesMax = std::size_t{8} << 20;  // compiled

struct SamplingRule {
  std::string_view field;
  float SamplingParams::*value = nullptr;
  Range range;
};

inline constexpr std::array<SamplingRule, 17> kSamplingRules{{
    {"temperature", &SamplingParams::temperature, kPositive},
    {"repetition_penalty", &SamplingParams::repetition_penalty, kPositive},
    {"frequency_penalty", &SamplingParams::relative_frequency_penalty, kFinite},
    {"frequency_penalty", &SamplingParams::frequency_penalty, kFinite},
    {"presence_penalty", &SamplingParams::presence_penalty, kFinite},
    {"top_p", &SamplingParams::top_p, kProbability},
    {"typical_p", &SamplingParams::typical_p, kProbability},
    {"min_p", &SamplingParams::min_p, kMinP},
    {"epsilon_cutoff", &SamplingParams::epsilon_cutoff, kMinP},
    {"eta_cutoff", &SamplingParams::eta_cutoff, kMinP},
    {"top_n_sigma", &SamplingParams::top_n_sigma, kNotNegative},
    {"dynatemp_range", &SamplingParams::dynatemp_range, kNotNegative},
    {"dynatemp_exponent", &SamplingParams::dynatemp_exponent, kPositive},
    {"xtc_probability", &SamplingParams::xtc_probability, kShare},
    {"xtc_threshold", &SamplingParams::xtc_threshold, kProbability},
    {"dry_multiplier", &SamplingParams::dry_multiplier, kNotNegative},
    {"dry_base", &SamplingParams::dry_base, kDryBase},
}};

// The steps of SamplingParams::samplers as requests name them, in the order of the enum.
inline constexpr std::array<std::string_view, 10> kSamplerNames{"dry",
                                                                "top_n_sigma",
                                                                "top_k",
                                                                "typical_p",
                                                                "top_p",
                                                                "min_p",
                                                                "epsilon_cutoff",
                                                                "eta_cutoff",
                                                                "xtc",
                                                                "temperature"};
static_assert(static_cast<std::size_t>(SamplerStep::kTemperature) + 1 == kSamplerNames.size());

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
