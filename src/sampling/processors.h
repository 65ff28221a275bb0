#pragma once
// Processors change the scores of candidates; formulas and order in docs/sampling.md. Ids
// that are no candidates are skipped. Scores stay within +-kScoreMax. Thread rule: pure
// functions of their arguments.

#include <cstdint>
#include <span>
#include <utility>

#include <coxswain/types.h>

#include "sampling/candidates.h"
#include "sampling/token_counts.h"

namespace coxswain::sampling {

// Once per distinct id of the context: score < 0 ? score * penalty : score / penalty. REQUIRES: penalty > 0.
void apply_repetition_penalty(CandidateSet& set, const TokenCounts& counts, float penalty);

// score - penalty * (count in the context) / (length of the context)
void apply_relative_frequency_penalty(CandidateSet& set, const TokenCounts& counts, float penalty);

// What frequency and presence penalties count.
enum class Counted : std::uint8_t { kOutput, kPromptAndOutput };

// score - frequency * count - presence * (1 if count > 0)
void apply_count_penalties(
    CandidateSet& set, const TokenCounts& counts, Counted counted, float frequency, float presence);

// score + bias
void apply_logit_bias(CandidateSet& set, std::span<const std::pair<TokenId, float>> biases);

// score / temperature. REQUIRES: temperature > 0.
void apply_temperature(CandidateSet& set, float temperature);

// score / T, where T goes from max(0, temperature - range) to temperature + range as the entropy of the candidates goes
// from 0 to the largest that so many can have: low + (high - low) * (entropy / log(size)) ^ exponent. (kalomaze 2024,
// https://github.com/LostRuins/koboldcpp/pull/600; the exponent: https://github.com/ggml-org/llama.cpp/pull/4972.)
// REQUIRES: temperature, range and exponent > 0.
void apply_dynamic_temperature(CandidateSet& set, float temperature, float range, float exponent);

// Only ids whose bit is set stay, the lowest in the lowest bit of the first word; ids without a bit leave. False, and
// the set as it was, if none would stay.
[[nodiscard]] bool keep_masked(CandidateSet& set, std::span<const std::uint64_t> mask);

// `ids` (ascending, each once) leave the set; it is unchanged if that would empty it.
void remove_ids(CandidateSet& set, std::span<const TokenId> ids);

}  // namespace coxswain::sampling
