#include "serve/sibling.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

namespace coxswain::serve {
namespace {

// Parent and start time from /proc/PID/stat; the name before them may hold blanks and brackets.
std::optional<Sibling> our_sibling(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  pid_t parent = 0;
  fields >> state >> parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  Sibling out{.pid = pid};
  fields >> out.start_ticks;
  if (!fields || parent != getppid() || state == "Z") return std::nullopt;
  return out;
}

}  // namespace

std::optional<Sibling> find_sibling(const std::string& socket_path) {
  constexpr std::string_view kScheme = "unix://";
  const std::string path =
      socket_path.starts_with(kScheme) ? socket_path.substr(kScheme.size()) : socket_path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::copy(path.begin(), path.end(), address.sun_path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::nullopt;
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool known =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  close(fd);
  return known ? our_sibling(peer.pid) : std::nullopt;
}

bool kill_sibling(const Sibling& sibling) {
  const auto now = our_sibling(sibling.pid);
  if (!now || now->start_ticks != sibling.start_ticks) return false;
  return kill(sibling.pid, SIGKILL) == 0;
}

}  // namespace coxswain::serve
