#pragma once
// coxswain-bench-runner --only drafts --prompts FILE: what a draft model or heads gain on the prompts of a file; --only
// grammar: what guesses of forced text gain.
//
// Thread rule: one thread.

#include <cstdint>
#include <string>

#include "runner/local_runner.h"

namespace coxswain::bench {

// Block ids that print_prompt_gains() uses, from 1 on.
std::uint32_t prompt_blocks(std::uint32_t n_streams, std::uint32_t block_tokens);

// Answers all prompts (`entries`: `prompt_ids`) greedily, `n_streams` at a time, without guesses and with them in turn
// for `n_rounds` rounds, and prints the gain in decoded tokens a second. Dies where a token is another.
void print_prompt_gains(runner::LocalRunner& runner,
                        const std::string& path,
                        std::uint32_t n_streams,
                        std::uint32_t n_rounds);

// The same of answers in a form whose members have long names, whose text is guessed where the form forces it.
void print_forced_gains(runner::LocalRunner& runner,
                        std::uint32_t n_streams,
                        std::uint32_t n_rounds);

}  // namespace coxswain::bench
