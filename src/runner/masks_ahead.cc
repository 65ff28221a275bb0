#include "runner/masks_ahead.h"

#include <iterator>
#include <utility>

#include "base/thread_name.h"

namespace coxswain::runner {

MasksAhead::MasksAhead()
    : thread_([this] {
        base::name_thread("masks");
        make_masks();
      }) {}

MasksAhead::~MasksAhead() {
  {
    base::MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void MasksAhead::begin(std::vector<Wanted> wanted) {
  if (wanted.empty()) return;
  {
    base::MutexLock lock(mu_);
    wanted_.assign(std::move_iterator(wanted.begin()), std::move_iterator(wanted.end()));
  }
  changed_.notify_one();
}

void MasksAhead::make_masks() {
  while (true) {
    Wanted next;
    {
      base::MutexLock lock(mu_);
      changed_.wait(lock, [&]() REQUIRES(mu_) { return stop_ || !wanted_.empty(); });
      if (stop_) return;
      next = std::move(wanted_.front());
      wanted_.pop_front();
    }
    // What it says is asked for again where it is used.
    static_cast<void>(next.masks->mask(next.place));
  }
}

}  // namespace coxswain::runner
