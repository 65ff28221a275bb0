#pragma once
// SocketFolder: the folder of a socket path that the user chose, removed at the end if it was made for it.
//
// Thread rule: values; one owner.

#include <string>

namespace coxswain::serve {

class SocketFolder {
 public:
  // Makes the folder of `socket` (mode 0700) if it is missing. What keeps it from being made is left to whoever makes
  // the socket, and says so.
  explicit SocketFolder(std::string socket);
  // Removes a folder that was made, with what a killed shard left of the socket. Anything else in it keeps it.
  ~SocketFolder();
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;

 private:
  const std::string socket_;
  std::string made_;  // empty: it was there
};

}  // namespace coxswain::serve
