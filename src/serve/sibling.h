#pragma once
// Sibling: another child of our launcher, found by the socket that it listens on, so that the router
// can end a shard that stands still. The launcher sees a death like any other and starts the next one.
//
// Thread rule: pure functions of the operating system's state.

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

namespace coxswain::serve {

struct Sibling {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // tells it from a later process with the same number
};

// Who listens at `socket_path`. Empty if nobody does or it has another parent than we.
std::optional<Sibling> find_sibling(const std::string& socket_path);

// SIGKILL, the one signal that a stopped process obeys. False if it is gone already.
bool kill_sibling(const Sibling& sibling);

}  // namespace coxswain::serve
