#pragma once
// What `--env` logs: the version and the machine, for reports of faults. Nothing that tells who runs it.

#include <string>
#include <utility>
#include <vector>

namespace coxswain::serve {

// Names with values, in the order to show them. A fact that the machine does not tell is left out.
std::vector<std::pair<std::string, std::string>> runtime_environment();

}  // namespace coxswain::serve
