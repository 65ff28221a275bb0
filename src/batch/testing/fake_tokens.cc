#include "batch/testing/fake_tokens.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace coxswain::batch::testing {

std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h += value + 0x9e3779b97f4a7c15U;
  h = (h ^ (h >> 30U)) * 0xbf58476d1ce4e5b9U;
  h = (h ^ (h >> 27U)) * 0x94d049bb133111ebU;
  return h ^ (h >> 31U);
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = text.size();
  for (const char c : text) h = mix(h, static_cast<unsigned char>(c));
  return h;
}

std::uint64_t identity_of(const FakeRunnerOptions& o, const SequenceSpec& spec) {
  std::uint64_t variant = 0;
  if (o.rope_switch_length > 0 && spec.rope_length > o.rope_switch_length) {
    variant = o.rope_length_is_exact ? spec.rope_length : 1;
  }
  return mix(mix(hash_text(spec.adapter_digest), hash_text(spec.cache_salt)), variant);
}

std::uint64_t cell(std::uint32_t position, TokenId token, std::uint64_t identity) {
  return mix(mix(position, static_cast<std::uint64_t>(token)), identity);
}

bool sees(const FakeRunnerOptions& o,
          std::uint32_t window,
          std::uint32_t position,
          std::uint32_t other) {
  return window == 0 || other < o.sink_tokens || position - other < window;
}

Sampled sample(const FakeRunnerOptions& o,
               std::uint64_t context,
               const SamplingParams& sampling,
               std::uint32_t n_output) {
  const std::uint64_t h = sampling.do_sample ? mix(mix(context, sampling.seed), n_output) : context;
  const std::uint32_t n_sampled = o.n_sampled > 0 ? o.n_sampled : o.vocab_size;
  return {.token = o.first_sampled + static_cast<TokenId>(h % n_sampled),
          .logprob = -static_cast<float>((h >> 20U) & 0xFFFFU) / 4096.0F,
          .eos = o.eos_every > 0 && (h >> 40U) % o.eos_every == 0};
}

float prompt_logprob(std::uint64_t context, TokenId token) {
  return -static_cast<float>(mix(context, static_cast<std::uint64_t>(token)) & 0xFFFFU) / 4096.0F;
}

std::vector<TokenAlternative> candidates_of(const FakeRunnerOptions& o,
                                            std::uint64_t context,
                                            std::size_t n) {
  std::vector<TokenAlternative> out;
  const std::uint32_t n_sampled = o.n_sampled > 0 ? o.n_sampled : o.vocab_size;
  for (std::uint32_t i = 0; i < n_sampled; ++i) {
    const TokenId id = o.first_sampled + static_cast<TokenId>(i);
    const std::uint64_t h = mix(context, 0xBEA0U + static_cast<std::uint64_t>(id));
    out.push_back({.id = id,
                   .logprob = -static_cast<float>(h & 0xFFFFU) / 4096.0F,
                   .special = std::ranges::count(o.about.eos_token_ids, id) > 0,
                   .text = o.codec ? o.codec->token_text(id) : std::string()});
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &TokenAlternative::logprob);
  const std::size_t n_most = o.few_candidates ? 1 + mix(context, 0xFE3) % 3 : out.size();
  out.resize(std::min({n, n_most, out.size()}));
  return out;
}

std::string text_of(const FakeRunnerOptions& o, TokenId token) {
  return o.codec ? o.codec->token_text(token) : std::string();
}

std::optional<SequenceFinish> finish_of(const FakeRunnerOptions& o,
                                        const StoppingParams& stopping,
                                        std::span<const TokenId> output,
                                        const Sampled& last) {
  SequenceFinish finish;
  if (o.codec) finish.generated_text = o.codec->decode(output, true);
  finish.stop_text_begin = finish.generated_text.size();
  const bool at_eos = last.eos && !stopping.ignore_eos;
  const bool at_length = output.size() >= stopping.max_new_tokens;
  if (o.codec && (stopping.order == FinishOrder::kStopFirst || (!at_eos && !at_length))) {
    for (const std::string& stop : stopping.stop_sequences) {
      if (!finish.generated_text.ends_with(stop)) continue;
      finish.reason = FinishReason::kStopSequence;
      finish.stop_text_begin -= stop.size();
      return finish;
    }
  }
  if (at_eos) finish.reason = FinishReason::kEosToken;
  return at_eos || at_length ? std::optional(std::move(finish)) : std::nullopt;
}

namespace {

std::uint64_t identity_of(const FakeRunnerOptions& o, const GenerationRequest& request) {
  const auto n_prompt = static_cast<std::uint32_t>(request.prompt.size());
  return identity_of(o,
                     SequenceSpec{.id = {},
                                  .rope_length = n_prompt + request.stopping.max_new_tokens,
                                  .adapter_digest = request.adapter_digest,
                                  .cache_salt = request.cache_salt});
}

// Hash of what the last of `tokens` sees.
std::uint64_t context_of(const FakeRunnerOptions& o,
                         std::uint64_t identity,
                         std::span<const TokenId> tokens) {
  std::uint64_t h = 0;
  const auto end = static_cast<std::uint32_t>(tokens.size());
  for (const std::uint32_t window : o.windows) {
    for (std::uint32_t p = 0; p < end; ++p) {
      if (sees(o, window, end - 1, p)) h = mix(h, cell(p, tokens[p], identity));
    }
  }
  return h;
}

}  // namespace

std::vector<TokenAlternative> candidates_behind(const FakeRunnerOptions& options,
                                                const GenerationRequest& request,
                                                std::span<const TokenId> tokens,
                                                std::size_t n) {
  return candidates_of(options, context_of(options, identity_of(options, request), tokens), n);
}

ExpectedOutput expected_output(const FakeRunnerOptions& o, const GenerationRequest& request) {
  const std::uint64_t identity = identity_of(o, request);
  std::vector<TokenId> tokens = request.prompt;
  const auto context = [&](std::uint32_t end) {
    return context_of(o, identity, std::span(tokens).first(end));
  };
  ExpectedOutput out;
  out.prompt_logprobs.push_back(std::numeric_limits<float>::quiet_NaN());
  for (std::uint32_t p = 1; p < request.prompt.size(); ++p) {
    out.prompt_logprobs.push_back(prompt_logprob(context(p), tokens[p]));
  }
  for (std::uint32_t n = 0; n < request.stopping.max_new_tokens; ++n) {
    const Sampled s =
        sample(o, context(static_cast<std::uint32_t>(tokens.size())), request.sampling, n);
    out.tokens.push_back(s.token);
    out.logprobs.push_back(s.logprob);
    tokens.push_back(s.token);
    if (const auto finish = finish_of(o, request.stopping, out.tokens, s)) {
      out.reason = finish->reason;
      out.text = finish->generated_text;
      break;
    }
  }
  return out;
}

}  // namespace coxswain::batch::testing
