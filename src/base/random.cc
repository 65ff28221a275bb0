#include "base/random.h"

#include <sys/random.h>

namespace coxswain::base {

std::uint64_t random_u64() {
  for (;;) {
    std::uint64_t value = 0;
    const ssize_t n = getrandom(&value, sizeof value, 0);  // short only if a signal came
    if (n == static_cast<ssize_t>(sizeof value) && value != 0) return value;
  }
}

}  // namespace coxswain::base
