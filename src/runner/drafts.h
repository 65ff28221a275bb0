#pragma once
// What a runner guesses of a sequence's next tokens, and whether to compute them beside the one that it must.
//
// A guess never changes a token: its rows are computed behind the last known one, and each position is then chosen as
// without them; the guess only says for how many positions that was of use. So all of this may depend on the clock.
//
// Thread rule: belongs to the compute thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/types.h>

#include "runner/guess_source.h"

namespace coxswain::runner {

enum class DraftPolicy : std::uint8_t {
  kByGain,  // as many as pay
  kAlways,  // as many as there are, for tests
};

// Guesses by prompt lookup: what followed where the last tokens stood before. Takes 12 to 20 bytes a token.
class Drafter {
 public:
  // `draft`: how the output may begin; it is looked up like any other text, too.
  explicit Drafter(std::span<const TokenId> draft);

  // Takes what is new of a sequence; it only grows.
  void follow(std::span<const TokenId> prompt, std::span<const TokenId> output);
  bool has_guess() const { return match_ < text_.size(); }
  // Up to n tokens.
  std::span<const TokenId> guess(std::size_t n) const;
  // How likely the next token is the one guessed, by how it went with those before, computed or not.
  double chance() const { return chance_; }

 private:
  void push(TokenId token);
  void link(std::size_t end);
  // The end of the longest copy of the last tokens, or text_.size().
  std::size_t find() const;
  std::size_t common(std::size_t end) const;

  std::vector<TokenId> text_;  // draft, prompt, output
  std::size_t n_draft_;
  std::size_t match_ = 0;            // what is guessed begins there; the end: nothing is
  std::vector<std::uint32_t> head_;  // by hash of two tokens: where the last such pair ends
  std::vector<std::uint32_t> prev_;  // by the end of a pair: the end of the one before of its hash
  double chance_;
  std::size_t n_right_ = 0;  // guesses, one after the other
};

// What a further row costs a step, learned from the steps that were. One line (a + b x rows) for each order of
// magnitude of the batch, with what a batch of that size has shown.
class RowCosts {
 public:
  // Of a step that computed `n_rows` rows, `n_base` of them no guesses.
  void observe(std::size_t n_base, std::size_t n_rows, double seconds);
  // What a row of a guess must be worth, in tokens, where a step of `n_base` rows yields `n_tokens` without it.
  double price(std::size_t n_base, std::size_t n_tokens) const;
  // Of a step of `n_base` rows, and of a further row; 0 if no such step was seen.
  double step_seconds(std::size_t n_base) const;
  double row_seconds(std::size_t n_base) const;

 private:
  struct Sums {
    double weight = 0;
    double x = 0;
    double y = 0;
    double xx = 0;
    double xy = 0;
  };
  struct Line {
    double start = 0;
    double slope = 0;
  };
  static constexpr std::size_t kSizes = 16;
  static std::size_t size_of(std::size_t n_base);
  static Line line_of(const Sums& sums);

  std::array<Sums, kSizes> sums_{};
};

}  // namespace coxswain::runner
