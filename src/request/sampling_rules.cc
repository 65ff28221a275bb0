#include "request/sampling_rules.h"

#include <cmath>
#include <string>
#include <utility>

namespace coxswain::request {
namespace {

Status refuse(std::string_view field, std::string_view legal, std::string_view given) {
  std::string text = "`";
  text.append(field).append("` must be ").append(legal).append(". Given: ").append(given);
  return invalid_argument(std::move(text), std::string(field));
}

bool is_of_vocabulary(TokenId id, std::uint32_t vocab_size) {
  return id >= 0 && static_cast<std::uint32_t>(id) < vocab_size;
}

Status check_ids(std::string_view field, std::span<const TokenId> ids, std::uint32_t vocab_size) {
  const auto foreign = find_foreign_id(ids, vocab_size);
  if (!foreign) return {};
  return refuse(
      field, "token ids >= 0 and < " + std::to_string(vocab_size), std::to_string(*foreign));
}

Status check_token_sequences(std::string_view field,
                             std::span<const std::vector<TokenId>> sequences,
                             std::uint32_t vocab_size) {
  if (sequences.size() > kTokenSequencesMax) {
    return refuse(field,
                  "at most " + std::to_string(kTokenSequencesMax) + " sequences",
                  std::to_string(sequences.size()));
  }
  std::size_t n_ids = 0;
  for (const std::vector<TokenId>& ids : sequences) {
    if (ids.empty()) return refuse(field, "sequences of at least one token id", "an empty one");
    n_ids += ids.size();
    COXSWAIN_RETURN_IF_ERROR(check_ids(field, ids, vocab_size));
  }
  if (n_ids <= kTokenSequenceIdsMax) return {};
  return refuse(field,
                "at most " + std::to_string(kTokenSequenceIdsMax) + " token ids together",
                std::to_string(n_ids));
}

Status check_allowed(std::span<const TokenId> ids, std::uint32_t vocab_size) {
  constexpr std::string_view kField = "allowed_token_ids";
  if (ids.size() > vocab_size) {
    return refuse(
        kField, "at most " + std::to_string(vocab_size) + " token ids", std::to_string(ids.size()));
  }
  return check_ids(kField, ids, vocab_size);
}

Status check_dry(const SamplingParams& params) {
  if (params.dry_allowed_length == 0) return refuse("dry_allowed_length", ">= 1", "0");
  constexpr std::string_view kField = "dry_sequence_breakers";
  const std::vector<std::string>& breakers = params.dry_sequence_breakers;
  if (breakers.size() > kDryBreakersMax) {
    return refuse(kField,
                  "at most " + std::to_string(kDryBreakersMax) + " texts",
                  std::to_string(breakers.size()));
  }
  for (const std::string& text : breakers) {
    if (text.empty() || text.size() > kDryBreakerBytesMax) {
      return refuse(kField,
                    "texts of 1 to " + std::to_string(kDryBreakerBytesMax) + " bytes",
                    std::to_string(text.size()));
    }
  }
  return {};
}

Status check_samplers(std::span<const SamplerStep> steps) {
  std::array<bool, kSamplerNames.size()> seen{};
  for (const SamplerStep step : steps) {
    const auto index = static_cast<std::size_t>(step);
    if (index >= seen.size()) return refuse("samplers", "known steps", std::to_string(index));
    if (std::exchange(seen[index], true)) {
      return refuse("samplers",
                    "steps that stand there once",
                    "`" + std::string(kSamplerNames[index]) + "` twice");
    }
  }
  return {};
}

}  // namespace

Status check_sampling(const SamplingParams& params,
                      std::uint32_t vocab_size,
                      std::size_t top_tokens_max) {
  for (const SamplingRule& rule : kSamplingRules) {
    const float value = params.*rule.value;
    if (rule.range.contains(value)) continue;
    const Range& broken = std::isfinite(value) ? rule.range : kFinite;
    return refuse(rule.field, broken.text(), number_text(value));
  }
  if (params.top_k < 0) return refuse("top_k", ">= 0", std::to_string(params.top_k));
  if (params.n_top_tokens > top_tokens_max) {
    return refuse("top_n_tokens",
                  "<= " + std::to_string(top_tokens_max),
                  std::to_string(params.n_top_tokens));
  }
  COXSWAIN_RETURN_IF_ERROR(check_token_sequences("bad_words", params.bad_words, vocab_size));
  COXSWAIN_RETURN_IF_ERROR(check_allowed(params.allowed_tokens, vocab_size));
  COXSWAIN_RETURN_IF_ERROR(check_dry(params));
  COXSWAIN_RETURN_IF_ERROR(check_samplers(params.samplers));
  if (params.grammar && params.grammar.size() == 0)
    return refuse("grammar", "a compiled one", "no bytes");
  COXSWAIN_RETURN_IF_ERROR(check_grammar_size(params.grammar.size()));
  if (params.thoughts) COXSWAIN_RETURN_IF_ERROR(check_thoughts(*params.thoughts, vocab_size));
  return check_logit_bias(params.logit_bias, vocab_size);
}

Status check_grammar_size(std::size_t n_bytes) {
  if (n_bytes <= kGrammarBytesMax) return {};
  return refuse("grammar",
                "at most " + std::to_string(kGrammarBytesMax) + " bytes when compiled",
                std::to_string(n_bytes));
}

Status check_thoughts(const ThoughtBudget& thoughts, std::uint32_t vocab_size) {
  if (thoughts.close.empty()) return refuse("thoughts.close", "at least one token id", "none");
  const auto check = [&](std::string_view field, std::span<const TokenId> ids) {
    if (ids.size() > kThoughtIdsMax) {
      return refuse(field,
                    "at most " + std::to_string(kThoughtIdsMax) + " token ids",
                    std::to_string(ids.size()));
    }
    return check_ids(field, ids, vocab_size);
  };
  COXSWAIN_RETURN_IF_ERROR(check("thoughts.open", thoughts.open));
  return check("thoughts.close", thoughts.close);
}

Status check_stopping(const StoppingParams& stopping, std::uint32_t vocab_size) {
  if (stopping.min_new_tokens > stopping.max_new_tokens) {
    return refuse("min_new_tokens",
                  "<= `max_new_tokens`, " + std::to_string(stopping.max_new_tokens),
                  std::to_string(stopping.min_new_tokens));
  }
  if (stopping.end_ids.size() > kEndIdsMax) {
    return refuse("end_ids",
                  "at most " + std::to_string(kEndIdsMax) + " token ids",
                  std::to_string(stopping.end_ids.size()));
  }
  COXSWAIN_RETURN_IF_ERROR(check_ids("end_ids", stopping.end_ids, vocab_size));
  return check_token_sequences("stop_token_sequences", stopping.stop_token_sequences, vocab_size);
}

Status check_logit_bias(std::span<const std::pair<TokenId, float>> bias, std::uint32_t vocab_size) {
  constexpr std::string_view kField = "logit_bias";
  for (const auto& [id, value] : bias) {
    if (!is_of_vocabulary(id, vocab_size)) {
      return invalid_argument("`logit_bias` token ids must be < " + std::to_string(vocab_size) +
                                  ". Given: " + std::to_string(id),
                              std::string(kField));
    }
    if (std::isnan(value)) {
      return invalid_argument(
          "`logit_bias` must have numbers as values. Given: nan for " + std::to_string(id),
          std::string(kField));
    }
  }
  return {};
}

std::optional<TokenId> find_foreign_id(std::span<const TokenId> ids, std::uint32_t vocab_size) {
  for (const TokenId id : ids) {
    if (!is_of_vocabulary(id, vocab_size)) return id;
  }
  return std::nullopt;
}

}  // namespace coxswain::request
