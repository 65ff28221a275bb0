#pragma once
// MasksAhead: makes masks of grammars on a thread of its own while a forward pass runs.
//
// A mask depends on the output alone, which is known before the pass. What was made ahead is found in the tables of its
// grammar by who samples; what was not, they make themselves: no bit depends on how far this thread came.
//
// Thread rule: belongs to one thread.

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "grammar/token_masks.h"

namespace coxswain::runner {

class MasksAhead {
 public:
  struct Wanted {
    std::shared_ptr<const grammar::TokenMasks> masks;
    grammar::TokenMasks::Position place;
  };

  MasksAhead();
  ~MasksAhead();
  MasksAhead(const MasksAhead&) = delete;
  MasksAhead& operator=(const MasksAhead&) = delete;

  // In this order. What was asked for before and is not begun is given up.
  void begin(std::vector<Wanted> wanted) EXCLUDES(mu_);

 private:
  void make_masks() EXCLUDES(mu_);

  base::Mutex mu_;
  base::CondVar changed_;
  bool stop_ GUARDED_BY(mu_) = false;
  std::deque<Wanted> wanted_ GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace coxswain::runner
