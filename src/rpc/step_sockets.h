#pragma once
// StepSockets: the streams of plans that come over sockets of their own, each with a thread.
//
// Thread rule: any thread.

#include <list>
#include <memory>

#include <coxswain/types.h>

#include "base/mutex.h"
#include "rpc/step_stream.h"
#include "rpc/unix_socket.h"

namespace coxswain::rpc {

class StepSockets {
 public:
  explicit StepSockets(const StepStreamParts& parts);
  // Cuts them.
  ~StepSockets();
  StepSockets(const StepSockets&) = delete;
  StepSockets& operator=(const StepSockets&) = delete;

  // A connection of which nothing has been read.
  void serve(Descriptor socket);
  // Waits until they have ended, and cuts those that have not by then. None may come meanwhile.
  void stop(TimePoint deadline);

 private:
  struct Stream;

  const StepStreamParts parts_;
  base::Mutex mu_;
  base::CondVar ended_;
  std::list<std::unique_ptr<Stream>> streams_ GUARDED_BY(mu_);
};

}  // namespace coxswain::rpc
