#pragma once
// What a fleet was asked for lately: LoadHistory has prompt tokens and blocks in use, LatencyWindow what clients
// waited. Both keep what is within a window, of bounded length.
//
// Thread rule: one thread at a time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include <coxswain/types.h>

namespace coxswain::fleet {

// Looked at now and then.
struct LoadPoint {
  TimePoint at{};
  std::uint64_t arrived_tokens = 0;  // of prompts, since the beginning
  double arrived_squares = 0.0;      // the sum of the squares of what each prompt had
  std::uint64_t used_blocks = 0;
};

// Of prompt tokens, by now.
struct LoadTrend {
  double tokens_per_s = 0.0;
  double slope = 0.0;  // per s
};

class LoadHistory {
 public:
  // Looks are `interval`, above 0, apart at least, and about twice that in the mean.
  LoadHistory(std::chrono::milliseconds window, Clock::duration interval)
      : window_(window), interval_(interval) {}

  // Of rising times. One that comes too soon is left out: two prompts within a moment are no rate. What is older than
  // the window goes, but for the last of it, where the first interval begins.
  void add(const LoadPoint& point);

  // The rate of the window's second half, going on as it rose or fell against the first: a mean of the window would be
  // the rate of half a window ago. Where no line explains the window, as its rate bends by more than that of prompts of
  // these lengths which arrive at random (two standard deviations), it is the second half of the last half, quarter and
  // so on that one does explain, and no slope; so it is while the window is not full. An even load is told by many
  // prompts then, and a burst as soon as it is one. Between two looks prompts count as arriving evenly.
  LoadTrend trend() const;
  double peak_tokens_per_s() const;  // between two looks
  std::uint64_t peak_blocks() const;

 private:
  struct Totals {
    double tokens = 0.0;
    double squares = 0.0;
  };
  // The variance is that of a compound Poisson process.
  struct Rate {
    double tokens_per_s = 0.0;
    double variance = 0.0;
  };
  Totals totals_at(TimePoint at) const;
  Rate rate_between(TimePoint from, TimePoint to) const;
  // The rate of the last `span`, by its thirds, more than chance explains.
  bool bends(Clock::duration span) const;

  const std::chrono::milliseconds window_;
  const Clock::duration interval_;
  std::deque<LoadPoint> points_;
};

struct Latencies {  // 95th percentiles, 0 = unknown
  std::chrono::milliseconds ttft{0};
  std::chrono::milliseconds itl{0};  // of the mean gap of a sequence
};

class LatencyWindow {
 public:
  // A sequence has ended, with `n_tokens`, one at least.
  void note(TimePoint ended,
            Clock::duration to_first,
            Clock::duration since_first,
            std::uint64_t n_tokens);
  // Of those that ended in the `window` before `now`, the last kSamplesMax of them.
  Latencies within(TimePoint now, std::chrono::milliseconds window) const;

 private:
  static constexpr std::size_t kSamplesMax = 512;
  struct Sample {
    TimePoint at{};
    Clock::duration ttft{};
    Clock::duration itl{};  // 0: it had one token
  };
  std::deque<Sample> samples_;
};

}  // namespace coxswain::fleet
