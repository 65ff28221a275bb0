#pragma once
// Tries: how often, and after which pauses, what a hub did not answer is asked for again.
//
// Thread rule: run() may be called by several threads at once.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include <coxswain/status.h>

namespace coxswain::hub {

struct Tries {
  using Pause = std::chrono::milliseconds;

  int max = 5;  // in a row that bring nothing
  // Before the second one; twice as long before each further one.
  Pause pause{1000};
  Pause pause_max{300'000};  // what a hub asks for beyond that is not waited for
  std::function<void(Pause)> wait = [](Pause time) { std::this_thread::sleep_for(time); };

  // Calls `once` until it is ok, fails with anything but kUnavailable, or has failed `max` times in a row without
  // `came` growing. It may set `asked`: so long at least the hub wants to be left alone.
  template <typename Once>
  Status run(const std::uint64_t& came, Once once) const {
    auto next_pause = pause;
    for (int tries = 1;; ++tries) {
      const std::uint64_t before = came;
      Pause asked{0};
      Status status = once(asked);
      if (status.code() != Code::kUnavailable) return status;
      if (came > before) {
        tries = 1;
        next_pause = pause;
      }
      if (tries >= max || asked > pause_max) return status;
      wait(std::max(next_pause, asked));
      next_pause *= 2;
    }
  }
};

}  // namespace coxswain::hub
