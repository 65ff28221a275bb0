#pragma once
// HangupWatch: tells when the process at the other end of a connection is gone, at once and without asking it.
//
// A connection that nobody reads from or writes to says nothing by itself: gRPC hands its end on only to whoever waits
// for an event. The watch sleeps in the kernel until the peer's end is closed, and costs nothing meanwhile.
//
// Thread rule: made and destroyed by one thread; the call comes from a thread of its own, and may neither destroy the
// watch nor wait for whoever does.

#include <functional>
#include <thread>

#include "rpc/unix_socket.h"

namespace coxswain::rpc {

class HangupWatch {
 public:
  // Watches the connection behind `socket`, which stays the caller's and may be closed. Calls `on_hangup` at most once.
  HangupWatch(const Descriptor& socket, std::function<void()> on_hangup);
  ~HangupWatch();
  HangupWatch(const HangupWatch&) = delete;
  HangupWatch& operator=(const HangupWatch&) = delete;

 private:
  Descriptor socket_;
  Descriptor stop_;
  std::thread thread_;
};

}  // namespace coxswain::rpc
