#pragma once
// EarlyResults: first tokens of a step ahead of its other rows. A result of hundreds of rows takes longer to be handed
// from one process to another than that of the few sequences behind whose first token somebody waits.
//
// A StepRunner that can tell them implements EarlyResultsSource, too. Nothing depends on it: what is told early comes
// again with the result of the step.
//
// Thread rule: that of StepRunner::wait().

#include <vector>

#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain {

class EarlyResults {
 public:
  virtual ~EarlyResults() = default;
  // From within wait() for the oldest step in flight: some of its rows, in their order, of sequences that got their
  // first token. `now`: when they were there.
  virtual void on_early(StepTicket ticket,
                        std::vector<SequenceResult> first_tokens,
                        TimePoint now) = 0;
};

class EarlyResultsSource {
 public:
  virtual ~EarlyResultsSource() = default;
  // Whom wait() tells from now on; null: nobody. It outlives the calls of wait().
  virtual void tell_early(EarlyResults* to) = 0;
};

}  // namespace coxswain
