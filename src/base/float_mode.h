#pragma once
// FloatMode: the arithmetic that results are stated for, on the calling thread while the object lives: rounding to
// nearest, subnormal numbers kept, no trap. A thread inherits its control word, and a program built with -ffast-math
// sets flush-to-zero for all of them; what a request yields must not hang on that.
//
// Every thread that computes holds one: the pool's workers and a runner's compute thread for their life, callers of
// ThreadPool::run() and Model::load() for the call. Costs a few nanoseconds where the mode is right already.
//
// Thread rule: made and destroyed on one thread, innermost first.

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace coxswain::base {

#if defined(__x86_64__)

class FloatMode {
 public:
  FloatMode() : before_(_mm_getcsr()) {
    if ((before_ & kModes) != kNearestMasked) _mm_setcsr(kNearestMasked);
  }
  ~FloatMode() {
    if ((before_ & kModes) != kNearestMasked) _mm_setcsr(before_);
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  // MXCSR (Intel SDM 1, 10.2.3): all but the six flags of what has happened; every exception masked.
  static constexpr std::uint32_t kModes = 0xFFC0;
  static constexpr std::uint32_t kNearestMasked = 0x1F80;

  const std::uint32_t before_;
};

#else

class FloatMode {
 public:
  FloatMode() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatMode() { std::fesetenv(&before_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  std::fenv_t before_;
};

#endif

}  // namespace coxswain::base
