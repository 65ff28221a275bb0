#pragma once
// The limit of open files of this process (RLIMIT_NOFILE), which bounds its connections.
//
// Thread rule: call before threads that open files.

#include <cstdint>

namespace coxswain::serve {

// Raises the soft limit to the hard one, as far as the system allows. Returns the limit that holds then.
std::uint64_t raise_open_files();

}  // namespace coxswain::serve
