#pragma once
// What guesses the tokens to come.
//
// There are two kinds. A guess from what is known of one sequence (look-up in its text, say) costs nothing to ask for:
// it is a Guess, and StepExecutor::best_known_guess() takes the one of the best chance. A StepSource computes: it
// guesses for all sequences of a step at once, one token after the other (a round each), which takes time of the
// step. So it is asked only where rounds_that_pay() says so.
//
// A guess never changes a token (drafts.h), so all of this may depend on the clock, and what is kept of a sequence may
// be lost at any time.
//
// Thread rule: belongs to the compute thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::runner {

class SequenceState;

// The next tokens of a sequence, as far as they are guessed.
struct Guess {
  std::span<const TokenId> ids = {};
  double chance = 0;  // of each to be right, if those before it were
};

// How long work of so many rows takes, learned from what was done. One mean for each order of magnitude.
class WorkCosts {
 public:
  void observe(std::size_t n_rows, double seconds);
  // Between what was seen in proportion, beyond it in proportion to the rows; 0 if nothing was seen.
  double seconds(double n_rows) const;

 private:
  struct Mean {
    double rows = 0;  // 0: none was seen
    double seconds = 0;
  };
  static constexpr std::size_t kSizes = 16;
  std::array<Mean, kSizes> means_{};
};

class StepSource {
 public:
  // What a source keeps of a sequence; it lives in the sequence's state.
  struct Kept {
    virtual ~Kept() = default;
    double chance = 0;  // of a guess to be right, if those before it were; learned
  };
  struct Wanted {
    SequenceState* state = nullptr;  // `kept` is there
    std::size_t n = 0;
    // What was guessed: n, fewer or none. An end token and what follows are not used.
    std::vector<TokenId> ids = {};
  };

  StepSource() = default;
  virtual ~StepSource() = default;
  StepSource(const StepSource&) = delete;
  StepSource& operator=(const StepSource&) = delete;

  virtual std::string_view name() const = 0;  // for the log
  virtual std::size_t n_max() const = 0;      // guesses of a sequence in a step
  virtual std::unique_ptr<Kept> open() = 0;
  // Rows to be computed of a sequence before its first guess: 1 where nothing is behind; 0: none can be made.
  virtual std::size_t n_first_rows(SequenceState& state) = 0;
  // Whether it wants keep_hidden() of each token that is chosen.
  virtual bool wants_hidden() const { return false; }
  // The row of hidden states, before the final norm, that the last token of `state` was chosen by.
  virtual void keep_hidden(SequenceState& /*state*/, std::span<const float> /*row*/) {}
  // What it takes goes to costs().
  virtual void guess(std::span<Wanted> wanted) = 0;

  const WorkCosts& costs() const { return costs_; }
  // Makes what is kept of a sequence if there is nothing yet.
  void begin(SequenceState& state);
  // How guesses went: `n_right`, then a wrong one or none.
  void learn(Kept& kept, std::size_t n_right, bool one_wrong);
  // No guess was made: what was learned of the sequence is slowly forgotten, so that it is tried again.
  void forget(Kept& kept) const;

 protected:
  WorkCosts costs_;

 private:
  double chance_ = 0.6;  // over all sequences, lately
};

// When a source that does not seem to pay is tried all the same: not for kSteps steps after it was asked, and in a
// share of the time of these.
class ProbeBudget {
 public:
  static constexpr std::uint32_t kSteps = 64;
  static constexpr double kShare = 0.01;

  void pass_step(double seconds) {
    ++n_steps_;
    seconds_ += seconds;
  }
  bool may_take(double seconds) const { return n_steps_ >= kSteps && seconds <= kShare * seconds_; }
  void begin_anew() { *this = {}; }

 private:
  std::uint32_t n_steps_ = 0;
  double seconds_ = 0;
};

// A sequence that a source could guess for.
struct RoundCandidate {
  double chance = 0;
  std::size_t n_max = 0;
  // StepSource::n_first_rows(), those behind shared out over the steps to come.
  double first_rows = 1;
  // Without the source: rows of a guess that costs nothing, and the tokens that they are worth.
  double known_rows = 0;
  double known_tokens = 0;
};

// A step as it is without the source.
struct RoundBase {
  double tokens = 0;
  double seconds = 0;
  double row_seconds = 0;  // of a further row
  double row_price = 0;    // in tokens, with a margin: rows that are worth less are not computed
};

// How many rounds give most tokens a second; 0: none do, where the source's time counts `margin` times.
std::size_t rounds_that_pay(const WorkCosts& costs,
                            const RoundBase& base,
                            std::span<const RoundCandidate> candidates,
                            double margin);

// How many guesses of this chance are worth their rows, up to n_max.
std::size_t rows_that_pay(double chance, std::size_t n_max, double price);

}  // namespace coxswain::runner
