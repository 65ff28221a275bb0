#pragma once
// The value of a result, or the end of the program with its message: a measurement that cannot go
// on has nothing to say.
//
// Thread rule: pure functions.

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <coxswain/status.h>

namespace coxswain::bench {

[[noreturn]] inline void die(const Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

template <typename T>
T require(Result<T> result) {
  if (!result.ok()) die(result.status());
  return std::move(result).value();
}

}  // namespace coxswain::bench
