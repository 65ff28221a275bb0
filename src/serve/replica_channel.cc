#include "serve/replica_channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/socket.h>

namespace coxswain::serve {
namespace {

constexpr std::array<std::string_view, 5> kVerbs{"start", "stop", "ready", "ended", "failed"};
constexpr std::size_t kMessageBytesMax = 32;
constexpr int kMessagesMax = 256;  // of one call

std::optional<std::size_t> number_of(std::string_view digits) {
  std::size_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return n;
}

bool carries_messages(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

}  // namespace

std::string to_text(const ReplicaMessage& message) {
  return std::string(kVerbs.at(static_cast<std::size_t>(message.verb))) + " " +
         std::to_string(message.replica);
}

Result<ReplicaMessage> parse_replica_message(std::string_view text, std::size_t n_replicas) {
  const std::size_t blank = std::min(text.find(' '), text.size());
  const auto* const verb = std::ranges::find(kVerbs, text.substr(0, blank));
  const auto replica = number_of(text.substr(std::min(blank + 1, text.size())));
  if (verb == kVerbs.end() || !replica || *replica >= n_replicas) {
    return invalid_argument("`" + std::string(text.substr(0, kMessageBytesMax)) +
                            "` says nothing about a replica below " + std::to_string(n_replicas));
  }
  return ReplicaMessage{.verb = static_cast<ReplicaVerb>(verb - kVerbs.begin()),
                        .replica = *replica};
}

Result<std::pair<ReplicaChannel, ReplicaChannel>> ReplicaChannel::make() {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) != 0)
    return Status(Code::kUnavailable, std::string("no pair of sockets: ") + std::strerror(errno));
  return std::pair(ReplicaChannel(fds[0]), ReplicaChannel(fds[1]));
}

Result<std::pair<ReplicaChannel, std::size_t>> ReplicaChannel::inherit(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto fd = number_of(text.substr(0, colon));
  const auto n_present = number_of(text.substr(std::min(colon + 1, text.size())));
  constexpr std::size_t kFdMax = 1 << 20;
  if (!fd || *fd > kFdMax || !n_present || *n_present == 0 ||
      !carries_messages(static_cast<int>(*fd))) {
    return invalid_argument("`" + std::string(kReplicaChannelVariable) +
                            "` names no channel; unset it");
  }
  const int number = static_cast<int>(*fd);
  fcntl(number, F_SETFD, FD_CLOEXEC);
  return std::pair(ReplicaChannel(number), *n_present);
}

ReplicaChannel::~ReplicaChannel() {
  if (fd_ >= 0) close(fd_);
}

Status ReplicaChannel::send(const ReplicaMessage& message) const {
  const std::string text = to_text(message);
  if (::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
      static_cast<ssize_t>(text.size()))
    return {};
  return {Code::kUnavailable, "`" + text + "` was not sent: " + std::strerror(errno)};
}

std::vector<ReplicaMessage> ReplicaChannel::receive(
    std::size_t n_replicas, const std::function<void(const Status&)>& on_bad) const {
  std::vector<ReplicaMessage> out;
  std::array<char, kMessageBytesMax> bytes{};
  for (int i = 0; i < kMessagesMax; ++i) {
    const ssize_t n = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n <= 0) break;  // a longer one loses its end, and is none
    auto message = parse_replica_message({bytes.data(), static_cast<std::size_t>(n)}, n_replicas);
    if (message.ok()) {
      out.push_back(*message);
    } else {
      on_bad(message.status());
    }
  }
  return out;
}

}  // namespace coxswain::serve
