#pragma once
// coxswain-bench-runner --only drafts: what guesses of the tokens to come gain, and what they cost if they are wrong.
//
// Thread rule: one thread.

#include <cstdint>

#include "runner/local_runner.h"

namespace coxswain::bench {

// Block ids that print_draft_gains() uses, from 1 on.
std::uint32_t draft_blocks(std::uint32_t n_streams, std::uint32_t block_tokens);

// What print_draft_gains() asks its runner for, by name.
runner::LogitsProcessors draft_processors();

// Decodes `n_streams` sequences together, without drafts and with each kind of them in turn, for `n_rounds` rounds, and
// prints tokens in a second of all. Dies where a token is another with drafts.
void print_draft_gains(runner::LocalRunner& runner,
                       std::uint32_t n_streams,
                       std::uint32_t n_rounds);

}  // namespace coxswain::bench
