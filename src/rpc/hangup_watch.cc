#include "rpc/hangup_watch.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <sys/eventfd.h>

#include "base/thread_name.h"

namespace coxswain::rpc {

HangupWatch::HangupWatch(const Descriptor& socket, std::function<void()> on_hangup)
    : socket_(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!socket_.valid() || !stop_.valid()) return;  // no descriptors left: calls fail by themselves
  thread_ = std::thread([this, call = std::move(on_hangup)] {
    base::name_thread("hangup");
    std::array<pollfd, 2> watched{pollfd{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0},
                                  pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
    }
    if (watched[1].revents == 0 && watched[0].revents != 0) call();
  });
}

HangupWatch::~HangupWatch() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

}  // namespace coxswain::rpc
