#pragma once
// best_of: which of several answers to one prompt are given. Thread rule: pure functions.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <ranges>
#include <span>

namespace coxswain::request {

// Index of the answer with the highest mean log-probability, the first among equals.
// REQUIRES: not empty; Answer has mean_logprob().
template <typename Answer>
std::size_t best_of(std::span<const Answer> answers) {
  const auto best = std::ranges::max_element(answers, {}, &Answer::mean_logprob);
  return static_cast<std::size_t>(best - answers.begin());
}

// Puts them in that order, best first.
template <typename Answer>
void rank_answers(std::span<Answer> answers) {
  std::ranges::stable_sort(answers, std::greater<>(), &Answer::mean_logprob);
}

}  // namespace coxswain::request
