#pragma once
// SocketListener accepts connections on a Unix socket and hands over each one that our own user made, once its first
// byte has come, which says what it is for.
//
// The folder of the socket is made with mode 0700 if it is missing, the socket has mode 0600, and
// `path`.lock is held while we live, so a second server at one path is refused. The lock dies with
// the process; a socket that a dead server left is replaced. The path is looked at once per second:
// a socket that was removed or replaced is made again. Socket and lock are removed at the end.
//
// Thread rule: one thread of its own calls `on_connection`; construction and destruction from one other thread.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <coxswain/status.h>

#include "rpc/unix_socket.h"
#include "telemetry/log.h"

namespace coxswain::rpc {

class SocketListener {
 public:
  // Non-blocking, close-on-exec; `first` has not been read.
  using OnConnection = std::function<void(Descriptor, char first)>;

  struct Options {
    std::string path;
    std::chrono::milliseconds check_interval{1000};  // how often the path is looked at
  };

  // Whether start() could have the path, without taking it. Errors: as start().
  static Status check_free(const std::string& path);

  // Errors: kFailedPrecondition if another server or another file holds the path; kUnavailable if
  // the file system refuses; kInvalidArgument for an impossible path.
  static Result<std::unique_ptr<SocketListener>> start(Options options,
                                                       OnConnection on_connection,
                                                       telemetry::Logger& log);
  ~SocketListener();
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  const std::string& path() const;

 private:
  struct Impl;
  explicit SocketListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::rpc
