#include "fleet/plan/disaggregation.h"

#include <array>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

struct Row {
  const char* what;
  PromptCase prompt;
  bool apart;
};

// 1 ms a token; a transfer of 20 ms where nothing else is said.
constexpr double kToken = 0.001;
constexpr double kTransfer = 0.02;

constexpr std::array kRows{
    Row{"nothing is known", {0, {0, 500, 8}, {0, 500, 0}, 0}, false},
    Row{"nobody generates", {kToken, {0, 500, 0}, {0, 500, 0}, kTransfer}, false},
    Row{"one that generates waits for a long prompt",
        {kToken, {0, 500, 1}, {0, 500, 0}, kTransfer},
        true},
    Row{"a short prompt, however many generate",
        {kToken, {0, 10, 50}, {0, 10, 0}, kTransfer},
        false},
    Row{"one that takes a little longer than half of what its blocks take, for several",
        {kToken, {0, 11, 2}, {0, 11, 0}, kTransfer},
        true},
    Row{"for one", {kToken, {0, 11, 1}, {0, 11, 0}, kTransfer}, false},
    Row{"a slow transfer that is quicker than the prompt",
        {kToken, {0, 500, 2}, {0, 500, 0}, 0.4},
        true},
    Row{"the transfer takes longer than the prompt, and many wait",
        {kToken, {0, 500, 40}, {0, 500, 0}, 0.6},
        true},
    Row{"it takes twice as long, whoever waits", {kToken, {0, 500, 40}, {0, 500, 0}, 1.1}, false},
    Row{"the prompt is cached where its answer is",
        {kToken, {0, 5, 3}, {0, 500, 0}, kTransfer},
        false},
    Row{"it is cached where prompts are computed",
        {kToken, {0, 500, 0}, {0, 5, 0}, kTransfer},
        true},
    Row{"prompts wait there", {kToken, {0, 500, 2}, {2000, 500, 0}, kTransfer}, false},
    Row{"prompts wait on both sides", {kToken, {1500, 500, 2}, {2000, 500, 0}, kTransfer}, true},
    Row{"a backlog where the answer is", {kToken, {400, 500, 0}, {0, 500, 0}, kTransfer}, true},
};

TEST(Disaggregation, TheLesserLoss) {
  for (const Row& row : kRows) EXPECT_EQ(pays_apart(row.prompt), row.apart) << row.what;
}

TEST(Disaggregation, WhatIsLost) {
  EXPECT_EQ(seconds_lost({}, 1.0), 0.0);
  EXPECT_EQ(seconds_lost({.waiting_tokens = 3, .own_tokens = 5, .n_generating = 2}, 2.0), 36.0);
}

// More sequences that wait for it never speak against computing it apart, more backlog there never for it.
TEST(Disaggregation, IsMonotone) {
  for (std::uint64_t n = 0; n < 16; ++n) {
    PromptCase prompt{kToken, {0, 40, n}, {100, 40, 0}, kTransfer};
    PromptCase busier = prompt;
    ++busier.together.n_generating;
    EXPECT_LE(pays_apart(prompt), pays_apart(busier));
    PromptCase behind = prompt;
    behind.apart.waiting_tokens += 100;
    EXPECT_LE(pays_apart(behind), pays_apart(prompt));
  }
}

}  // namespace
}  // namespace coxswain::fleet
