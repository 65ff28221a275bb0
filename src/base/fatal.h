#pragma once
// fatal(): ends the process when one of our own invariants is broken and going on would corrupt
// data. Never for outside input. Thread rule: any thread.

#include <cstdio>
#include <cstdlib>

namespace coxswain::base {

[[noreturn]] inline void fatal(const char* what) {
  std::fprintf(stderr, "fatal: %s\n", what);
  std::abort();
}

inline void require(bool condition, const char* what) {
  if (!condition) fatal(what);
}

}  // namespace coxswain::base
