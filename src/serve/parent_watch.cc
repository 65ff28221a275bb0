#include "serve/parent_watch.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <sys/eventfd.h>

#include "base/thread_name.h"

namespace coxswain::serve {
namespace {

int parent_pipe() {
  const char* text = std::getenv(kParentPipeVariable);
  if (text == nullptr) return -1;
  const std::string_view view = text;
  int fd = -1;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), fd);
  if (error != std::errc() || end != view.data() + view.size() || fcntl(fd, F_GETFD) < 0) return -1;
  return fd;
}

// True at end-of-file of `pipe_fd`, false if `stop_fd` was signalled first.
bool wait_for_end(int pipe_fd, int stop_fd) {
  for (;;) {
    pollfd fds[2] = {{pipe_fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return false;
    char byte = 0;
    if (fds[0].revents != 0 && read(pipe_fd, &byte, 1) <= 0) return true;
  }
}

}  // namespace

ParentWatch::ParentWatch(std::function<void()> on_gone) {
  const int pipe_fd = parent_pipe();
  if (pipe_fd < 0) return;
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  if (stop_fd_ < 0) return;
  thread_ = std::thread([pipe_fd, stop_fd = stop_fd_, on_gone = std::move(on_gone)] {
    base::name_thread("parent");
    if (wait_for_end(pipe_fd, stop_fd)) on_gone();
  });
}

ParentWatch::~ParentWatch() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = write(stop_fd_, &one, sizeof one);
  thread_.join();
  close(stop_fd_);
}

}  // namespace coxswain::serve
