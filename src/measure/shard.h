#pragma once
// The shard that is measured, and the prompt that it is given.
//
// Thread rule: the thread of main().

#include <cstdint>
#include <memory>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "measure/settings.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::measure {

// Exactly `n_tokens` ids of a plain text, with what the tokenizer puts in front of one. Errors: those of encode();
// kInvalidArgument for a tokenizer that makes no tokens of it.
Result<std::vector<TokenId>> make_prompt(const tokenizer::Tokenizer& tokenizer,
                                         std::uint32_t n_tokens);

// As `shard_protocol` says; auto is our own stream, or generate.v3 where the peer knows nothing else. A shard that is
// driven by generate.v3 is warmed up for the batches of `settings`. Errors: those of either client's connect().
Result<std::shared_ptr<StepRunner>> connect_shard(
    const Settings& settings, std::shared_ptr<const tokenizer::Tokenizer> tokenizer);

}  // namespace coxswain::measure
