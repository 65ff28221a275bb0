#include "serve/socket_folder.h"

#include <filesystem>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

namespace coxswain::serve {

SocketFolder::SocketFolder(std::string socket) : socket_(std::move(socket)) {
  const std::string folder = std::filesystem::path(socket_).parent_path().string();
  if (!folder.empty() && mkdir(folder.c_str(), S_IRWXU) == 0) made_ = folder;
}

SocketFolder::~SocketFolder() {
  if (made_.empty()) return;
  unlink(socket_.c_str());
  unlink((socket_ + ".lock").c_str());
  rmdir(made_.c_str());
}

}  // namespace coxswain::serve
