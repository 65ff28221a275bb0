#pragma once
// What a FakeRunner yields, as pure functions of what a position sees: tokens, log-probabilities, ends.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batch/testing/fake_runner.h"

namespace coxswain::batch::testing {

// splitmix64's finaliser over a running sum.
std::uint64_t mix(std::uint64_t h, std::uint64_t value);
std::uint64_t hash_text(std::string_view text);

// What makes equal tokens mean something else: adapter, salt, rope variant.
std::uint64_t identity_of(const FakeRunnerOptions& o, const SequenceSpec& spec);
// What is written for one position.
std::uint64_t cell(std::uint32_t position, TokenId token, std::uint64_t identity);
// Whether a token at `position` sees an earlier one in a group.
bool sees(const FakeRunnerOptions& o,
          std::uint32_t window,
          std::uint32_t position,
          std::uint32_t other);

struct Sampled {
  TokenId token = 0;
  float logprob = 0;
  bool eos = false;
};

Sampled sample(const FakeRunnerOptions& o,
               std::uint64_t context,
               const SamplingParams& sampling,
               std::uint32_t n_output);
float prompt_logprob(std::uint64_t context, TokenId token);
// The best `n`, best first.
std::vector<TokenAlternative> candidates_of(const FakeRunnerOptions& o,
                                            std::uint64_t context,
                                            std::size_t n);
std::string text_of(const FakeRunnerOptions& o, TokenId token);

// How `output`, whose last token is `last`, ends; nothing if it goes on.
std::optional<SequenceFinish> finish_of(const FakeRunnerOptions& o,
                                        const StoppingParams& stopping,
                                        std::span<const TokenId> output,
                                        const Sampled& last);

}  // namespace coxswain::batch::testing
