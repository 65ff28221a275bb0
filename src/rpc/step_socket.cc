#include "rpc/step_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <utility>

#include <sys/socket.h>

namespace coxswain::rpc {

namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// What stays allocated behind a large message.
constexpr std::size_t kKeptBytesMax = std::size_t{1} << 20;

std::size_t read_length(const char* from) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    out |= static_cast<std::size_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  return out;
}

bool is_only_busy() {
  return errno == EAGAIN || errno == EINTR;
}

void empty(std::string& buffer) {
  if (buffer.capacity() > kKeptBytesMax) std::string().swap(buffer);
  buffer.clear();
}

}  // namespace

StepSocket::StepSocket(Descriptor socket, std::size_t message_bytes_max)
    : socket_(std::move(socket)), message_bytes_max_(message_bytes_max) {}

void StepSocket::put(const google::protobuf::MessageLite& message) {
  if (!has_unsent()) {
    empty(unsent_);
    n_sent_ = 0;
  }
  const std::size_t length = message.ByteSizeLong();
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    unsent_.push_back(static_cast<char>(length >> (8 * i) & 0xFFU));
  message.AppendToString(&unsent_);
}

bool StepSocket::flush() {
  while (has_unsent()) {
    const ssize_t n =
        ::send(socket_.get(), unsent_.data() + n_sent_, unsent_.size() - n_sent_, MSG_NOSIGNAL);
    if (n < 0) return is_only_busy();
    n_sent_ += static_cast<std::size_t>(n);
  }
  return true;
}

bool StepSocket::fill() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (arrived_.size() > kKeptBytesMax) empty(arrived_);
  }
  const std::size_t n_held = end_ - begin_;
  std::size_t wanted = kReadBytes;
  if (n_held >= kLengthBytes) {
    const std::size_t whole = kLengthBytes + read_length(arrived_.data() + begin_);
    if (whole > n_held) wanted = std::max(wanted, whole - n_held);
  }
  if (arrived_.size() - end_ < wanted) {
    std::memmove(arrived_.data(), arrived_.data() + begin_, n_held);
    begin_ = 0;
    end_ = n_held;
    if (arrived_.size() < end_ + wanted) arrived_.resize(end_ + wanted);
  }
  const ssize_t n = ::recv(socket_.get(), arrived_.data() + end_, arrived_.size() - end_, 0);
  if (n < 0) return is_only_busy();
  end_ += static_cast<std::size_t>(n);
  return n > 0;
}

StepSocket::Taken StepSocket::take(google::protobuf::MessageLite& to) {
  if (end_ - begin_ < kLengthBytes) return Taken::kNone;
  const std::size_t length = read_length(arrived_.data() + begin_);
  if (length > message_bytes_max_) return Taken::kBroken;
  if (end_ - begin_ - kLengthBytes < length) return Taken::kNone;
  const char* bytes = arrived_.data() + begin_ + kLengthBytes;
  begin_ += kLengthBytes + length;
  return to.ParseFromArray(bytes, static_cast<int>(length)) ? Taken::kMessage : Taken::kBroken;
}

bool StepSocket::wait(For what, std::chrono::milliseconds limit) const {
  pollfd watched{.fd = socket_.get(), .events = 0, .revents = 0};
  if (what != For::kWriting) watched.events |= POLLIN;
  if (what != For::kReading) watched.events |= POLLOUT;
  return ::poll(&watched, 1, limit.count() < 0 ? -1 : static_cast<int>(limit.count())) != 0;
}

void StepSocket::shut_down() {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace coxswain::rpc
