#include "router/validate.h"

#include <algorithm>
#include <utility>

#include "router/wording.h"

namespace coxswain::router {
namespace {

constexpr float kGreedyTemperature = 1e-6F;  // below it the distribution is a maximum

bool asks_for_sampling(const Parameters& p) {
  return p.do_sample || p.temperature || p.top_k || p.top_p || p.typical_p;
}

// do_sample, or any parameter that reshapes the distribution.
bool samples(ApiStyle style, const Parameters& p) {
  const float temperature = p.temperature.value_or(1.0F);
  if (temperature < kGreedyTemperature) return false;
  if (style == ApiStyle::kOpenAi) return true;
  return p.do_sample || temperature != 1.0F || p.top_k || p.top_p || p.typical_p;
}

SamplingParams make_sampling(ApiStyle style, const Parameters& p) {
  SamplingParams out;
  out.do_sample = samples(style, p);
  if (out.do_sample) {
    out.temperature = p.temperature.value_or(1.0F);
    out.top_k = p.top_k.value_or(0);
    out.top_p = p.top_p.value_or(1.0F);
    out.typical_p = p.typical_p.value_or(1.0F);
    out.min_p = p.min_p.value_or(0.0F);
  }
  out.repetition_penalty = p.repetition_penalty.value_or(1.0F);
  if (style == ApiStyle::kNative) {
    out.relative_frequency_penalty = p.frequency_penalty.value_or(0.0F);
  } else {
    out.frequency_penalty = p.frequency_penalty.value_or(0.0F);
    out.presence_penalty = p.presence_penalty.value_or(0.0F);
  }
  out.logit_bias = p.logit_bias;
  out.n_top_tokens = p.top_n_tokens.value_or(0);
  return out;
}

// Neither NaN nor outside: comparisons are written so that NaN fails.
bool within(float value, float low, float high) {
  return value >= low && value <= high;
}

Status check_penalty(const Wording& wording, std::string_view name, std::optional<float> value) {
  if (within(value.value_or(0.0F), -2.0F, 2.0F)) return {};
  const std::string native = "`" + std::string(name) + "` must be >= -2.0 and <= 2.0";
  return wording.refuse(name, native, ">= -2.0 and <= 2.0", number_text(*value));
}

Status check_probability(const Wording& wording,
                         std::string_view name,
                         std::optional<float> value) {
  if (!value) return {};
  if (*value > 0.0F && *value < 1.0F) return {};
  if (!wording.native() && *value == 1.0F) return {};
  const std::string native = "`" + std::string(name) + "` must be > 0.0 and < 1.0";
  return wording.refuse(name, native, "> 0.0 and <= 1.0", number_text(*value));
}

Wording wording_of(const ValidationInput& input) {
  return {input.style, input.prompt_field, *input.parameters};
}

std::size_t max_new_or_zero(const Parameters& p, std::size_t total_max, std::size_t n_tokens) {
  if (p.max_new_tokens) return *p.max_new_tokens;
  return total_max > n_tokens ? total_max - n_tokens : 0;
}

}  // namespace

batch::GenerationRequest ValidRequest::engine_request(RequestId id, std::size_t sequence) const {
  batch::GenerationRequest out;
  out.id = id;
  out.prompt = prompt_;
  out.sampling = sampling_;
  out.sampling.seed = seeds_[sequence];
  out.stopping = stopping_;
  out.prompt_logprobs = prompt_logprobs_;
  return out;
}

Validator::Validator(ValidationLimits limits,
                     std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                     SeedSource draw_seed)
    : limits_(limits), tokenizer_(std::move(tokenizer)), draw_seed_(std::move(draw_seed)) {}

Status Validator::check_sequences(const ValidationInput& input) const {
  const Parameters& p = *input.parameters;
  if (input.stream) {
    if (p.best_of && *p.best_of != 1) {
      return invalid_argument("`best_of` != 1 is not supported when streaming tokens", "best_of");
    }
    if (p.decoder_input_details) {
      return invalid_argument(
          "`decoder_input_details` == true is not supported when streaming tokens",
          "decoder_input_details");
    }
  } else if (p.best_of && *p.best_of != 1) {
    if (limits_.best_of_max == 1) {
      return invalid_argument("`best_of` != 1 is not allowed for this endpoint", "best_of");
    }
    if (*p.best_of == 0 || *p.best_of > limits_.best_of_max) {
      return invalid_argument(
          "`best_of` must be > 0 and <= " + std::to_string(limits_.best_of_max) +
              ". Given: " + std::to_string(*p.best_of),
          "best_of");
    }
  }
  if (p.best_of.value_or(1) > 1 && !asks_for_sampling(p)) {
    return invalid_argument("you must use sampling when `best_of` is > 1", "best_of");
  }
  if (p.n && (*p.n == 0 || *p.n > limits_.n_max)) {
    return invalid_argument("`n` must be > 0 and <= " + std::to_string(limits_.n_max) +
                                ". Given: " + std::to_string(*p.n),
                            "n");
  }
  return {};
}

Status Validator::check_sampling(const ValidationInput& input) const {
  const Parameters& p = *input.parameters;
  const Wording wording = wording_of(input);
  const float temperature = p.temperature.value_or(1.0F);
  if (!(temperature > 0.0F) && !(!wording.native() && temperature == 0.0F)) {
    return wording.refuse("temperature",
                          "`temperature` must be strictly positive",
                          ">= 0.0",
                          number_text(temperature));
  }
  if (const float penalty = p.repetition_penalty.value_or(1.0F); !(penalty > 0.0F)) {
    return wording.refuse("repetition_penalty",
                          "`repetition_penalty` must be strictly positive",
                          "> 0.0",
                          number_text(penalty));
  }
  COXSWAIN_RETURN_IF_ERROR(check_penalty(wording, "frequency_penalty", p.frequency_penalty));
  COXSWAIN_RETURN_IF_ERROR(check_penalty(wording, "presence_penalty", p.presence_penalty));
  COXSWAIN_RETURN_IF_ERROR(check_probability(wording, "top_p", p.top_p));
  COXSWAIN_RETURN_IF_ERROR(check_probability(wording, "typical_p", p.typical_p));
  if (p.top_k && *p.top_k <= 0) {
    return wording.refuse(
        "top_k", "`top_k` must be strictly positive", ">= 1", std::to_string(*p.top_k));
  }
  const float min_p = p.min_p.value_or(0.0F);
  if (!(min_p >= 0.0F && min_p < 1.0F)) {
    return wording.refuse(
        "min_p", "`min_p` must be >= 0.0 and < 1.0", ">= 0.0 and < 1.0", number_text(min_p));
  }
  return {};
}

Status Validator::check_stopping(const ValidationInput& input) const {
  const Parameters& p = *input.parameters;
  const Wording wording = wording_of(input);
  if (p.max_new_tokens && *p.max_new_tokens == 0) {
    return wording.refuse(
        "max_new_tokens", "`max_new_tokens` must be strictly positive", ">= 1", "0");
  }
  if (p.stop.size() > limits_.stop_sequences_max) {
    return wording.refuse("stop",
                          "`stop` supports up to " + std::to_string(limits_.stop_sequences_max) +
                              " stop sequences. Given: " + std::to_string(p.stop.size()));
  }
  for (const std::string& text : p.stop) {
    if (text.empty()) return wording.refuse("stop", "`stop` cannot have empty strings");
    if (text.size() > limits_.stop_bytes_max) {
      return wording.refuse("stop",
                            "`stop` strings must have at most " +
                                std::to_string(limits_.stop_bytes_max) +
                                " bytes. Given: " + std::to_string(text.size()));
    }
  }
  return {};
}

Status Validator::check_ranges_after_sampling(const ValidationInput& input) const {
  const Parameters& p = *input.parameters;
  const Wording wording = wording_of(input);
  if (p.seed && p.best_of.value_or(1) > 1) {
    return wording.refuse("seed", "`seed` must not be set when `best_of` > 1");
  }
  if (p.top_n_tokens.value_or(0) > limits_.top_n_tokens_max) {
    const std::string limit = ">= 0 and <= " + std::to_string(limits_.top_n_tokens_max);
    const std::string given = std::to_string(*p.top_n_tokens);
    return wording.refuse(
        "top_n_tokens", "`top_n_tokens` must be " + limit + ". Given: " + given, limit, given);
  }
  for (const auto& [id, bias] : p.logit_bias) {
    if (std::cmp_less(id, limits_.vocab_size)) continue;
    return wording.refuse("logit_bias",
                          "`logit_bias` token ids must be < " + std::to_string(limits_.vocab_size) +
                              ". Given: " + std::to_string(id));
  }
  return {};
}

Status Validator::check_length(const ValidationInput& input,
                               std::size_t n_tokens,
                               bool exact) const {
  const Parameters& p = *input.parameters;
  const Wording wording = wording_of(input);
  const std::size_t max_new = max_new_or_zero(p, limits_.total_tokens_max, n_tokens);
  const std::string count = (exact ? "" : "at least ") + std::to_string(n_tokens);
  // Below /v1 a limit that the client did not give is not spoken of.
  const bool of_both = wording.native() || p.max_new_tokens;
  if (of_both && n_tokens + max_new > limits_.total_tokens_max) {
    const std::string prompt = "`" + std::string(wording.name("inputs")) + "` tokens";
    const std::string new_tokens = "`" + std::string(wording.name("max_new_tokens")) + "`";
    return wording.refuse("inputs",
                          prompt + " + " + new_tokens + " must be <= " +
                              std::to_string(limits_.total_tokens_max) + ". Given: " + count + " " +
                              prompt + " and " + std::to_string(max_new) + " " + new_tokens);
  }
  if (n_tokens > limits_.input_tokens_max) {
    const std::string limit = std::to_string(limits_.input_tokens_max);
    return wording.refuse("inputs",
                          wording.native()
                              ? "`inputs` must have less than " + limit + " tokens. Given: " + count
                              : "`" + std::string(wording.name("inputs")) + "` must have at most " +
                                    limit + " tokens. Given: " + count);
  }
  return {};
}

// Steps 12 to 16 of the table: the prompt as ids, cut to `truncate`, inside the limits.
Result<std::vector<TokenId>> Validator::tokenize(const ValidationInput& input) const {
  const Parameters& p = *input.parameters;
  const Wording wording = wording_of(input);
  const std::string cannot_be_empty =
      "`" + std::string(wording.name("inputs")) + "` cannot be empty";
  const bool empty = input.ids != nullptr ? input.ids->empty() : input.text.text.empty();
  if (empty) return wording.refuse("inputs", cannot_be_empty);
  if (p.truncate && (*p.truncate == 0 || *p.truncate > limits_.input_tokens_max)) {
    return invalid_argument("`truncate` must be strictly positive and less than " +
                                std::to_string(limits_.input_tokens_max) +
                                ". Given: " + std::to_string(*p.truncate),
                            "truncate");
  }
  std::vector<TokenId> ids;
  bool exact = true;
  if (input.ids != nullptr) {
    ids = *input.ids;
  } else {
    tokenizer::EncodeOptions options;
    options.add_special_tokens = input.text.add_special_tokens;
    options.untrusted = input.text.untrusted;
    options.wants_offsets = false;
    if (!p.truncate && input.text.text.size() > limits_.exact_count_bytes_max) {
      options.tokens_max = limits_.total_tokens_max;
    }
    auto encoding = tokenizer_->encode(input.text.text, options);
    if (!encoding.ok()) {
      return wording.refuse("inputs", "tokenizer error " + encoding.status().message());
    }
    ids = std::move(encoding.value().ids);
    exact = !encoding.value().truncated;
    if (!exact && ids.size() <= limits_.total_tokens_max) {
      ids.resize(limits_.total_tokens_max + std::size_t{1});  // only its size is looked at
    }
  }
  if (p.truncate && ids.size() > *p.truncate) {
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(*p.truncate));
  }
  if (ids.empty()) return wording.refuse("inputs", cannot_be_empty);
  for (TokenId id : ids) {
    if (id >= 0 && std::cmp_less(id, limits_.vocab_size)) continue;
    return wording.refuse("inputs",
                          "`" + std::string(wording.name("inputs")) + "` token ids must be < " +
                              std::to_string(limits_.vocab_size) +
                              ". Given: " + std::to_string(id));
  }
  COXSWAIN_RETURN_IF_ERROR(check_length(input, ids.size(), exact));
  return ids;
}

Result<ValidRequest> Validator::validate(const ValidationInput& input) const {
  const Parameters& p = *input.parameters;
  COXSWAIN_RETURN_IF_ERROR(check_sequences(input));
  COXSWAIN_RETURN_IF_ERROR(check_sampling(input));
  COXSWAIN_RETURN_IF_ERROR(check_stopping(input));
  COXSWAIN_RETURN_IF_ERROR(check_ranges_after_sampling(input));
  COXSWAIN_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenize(input));

  ValidRequest out;
  out.prompt_ = std::move(ids);
  out.sampling_ = make_sampling(input.style, p);
  out.stopping_.max_new_tokens =
      static_cast<std::uint32_t>(max_new_or_zero(p, limits_.total_tokens_max, out.prompt_.size()));
  out.stopping_.stop_sequences = p.stop;
  out.stopping_.ignore_eos = p.ignore_eos;
  out.prompt_logprobs_ = p.decoder_input_details || input.prompt_logprobs;
  const std::uint64_t n = std::max<std::uint64_t>(p.best_of.value_or(1), p.n.value_or(1));
  for (std::uint64_t i = 0; i < n; ++i) {
    out.seeds_.push_back(p.seed ? *p.seed + i : draw_seed_());
  }
  return out;
}

}  // namespace coxswain::router
