#include "request/sampling_rules.h"

#include <cmath>
#include <string>

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

}  // namespace

Status check_sampling(const SamplingParams& params, std::uint32_t vocab_size) {
  for (const SamplingRule& rule : kSamplingRules) {
    const float value = params.*rule.value;
    if (rule.range.contains(value)) continue;
    const Range& broken = std::isfinite(value) ? rule.range : kFinite;
    return refuse(rule.field, broken.text(), number_text(value));
  }
  if (params.top_k < 0) return refuse("top_k", ">= 0", std::to_string(params.top_k));
  if (params.n_top_tokens > kTopTokensMax) {
    return refuse(
        "top_n_tokens", "<= " + std::to_string(kTopTokensMax), std::to_string(params.n_top_tokens));
  }
  return check_logit_bias(params.logit_bias, vocab_size);
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
