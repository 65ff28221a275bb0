#pragma once
// Unix stream sockets that trust only our own user.
//
// Thread rule: values; a descriptor has one owner.

#include <chrono>
#include <string>
#include <utility>

#include <coxswain/status.h>
#include <sys/types.h>

namespace coxswain::rpc {

// An owned file descriptor; -1 holds nothing.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(-1); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd);

 private:
  int fd_ = -1;
};

// "unix:///a/b" and "unix:/a/b" become "/a/b"; a plain path stays.
std::string path_of_url(const std::string& url);

// Errors: kInvalidArgument if `path` is empty or does not fit a socket address.
Status check_socket_path(const std::string& path);

// A socket that listens at `path` with mode 0600. A socket left at `path` is replaced, any other file is
// not. Errors: kInvalidArgument for a path that does not fit an address; kFailedPrecondition otherwise.
Result<Descriptor> listen_unix(const std::string& path);

// A non-blocking connected socket. Errors: kUnavailable if nobody listens, kFailedPrecondition if
// the listener belongs to another user.
Result<Descriptor> connect_unix(const std::string& path, std::chrono::milliseconds timeout);

// True if the process at the other end is run by our user or by root.
bool peer_is_trusted(int fd);

}  // namespace coxswain::rpc
