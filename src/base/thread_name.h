#pragma once
// Names of threads, as `top -H`, perf and debuggers show them.
//
// Thread rule: each thread names itself.

#include <string>

namespace coxswain::base {

// "cx-" and the name, of which the system keeps 12 characters.
void name_thread(const std::string& name);

}  // namespace coxswain::base
