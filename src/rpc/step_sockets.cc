#include "rpc/step_sockets.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <proto/engine_v1.pb.h>
#include <sys/socket.h>

#include "base/thread_name.h"
#include "rpc/step_socket.h"

namespace coxswain::rpc {

namespace {

constexpr std::chrono::milliseconds kForever{-1};

class SocketCarrier final : public StepCarrier {
 public:
  SocketCarrier(Descriptor socket, std::size_t message_bytes_max)
      : socket_(std::move(socket), message_bytes_max) {}

  bool read(engine::v1::StepsRequest& to) override {
    for (;;) {
      switch (socket_.take(to)) {
        case StepSocket::Taken::kMessage:
          return true;
        case StepSocket::Taken::kBroken:
          return false;
        case StepSocket::Taken::kNone:
          break;
      }
      socket_.wait(StepSocket::For::kReading, kForever);
      if (!socket_.fill()) return false;
    }
  }

  bool write(const engine::v1::StepsResponse& from) override {
    socket_.put(from);
    while (socket_.flush()) {
      if (!socket_.has_unsent()) return true;
      socket_.wait(StepSocket::For::kWriting, kForever);
    }
    return false;
  }

  void cut() override { socket_.shut_down(); }

 private:
  StepSocket socket_;
};

}  // namespace

struct StepSockets::Stream {
  Stream(Descriptor socket, std::size_t message_bytes_max)
      : carrier(std::move(socket), message_bytes_max) {}

  SocketCarrier carrier;
  std::thread thread;
  bool has_ended = false;
};

StepSockets::StepSockets(const StepStreamParts& parts) : parts_(parts) {}

StepSockets::~StepSockets() {
  stop(Clock::now());
}

void StepSockets::serve(Descriptor socket) {
  char first = 0;
  if (::recv(socket.get(), &first, 1, 0) != 1) return;
  const base::MutexLock lock(mu_);
  std::erase_if(streams_, [](const auto& stream) {
    if (stream->has_ended) stream->thread.join();
    return stream->has_ended;
  });
  Stream& stream =
      *streams_.emplace_back(std::make_unique<Stream>(std::move(socket), parts_.message_bytes_max));
  stream.thread = std::thread([this, &stream] {
    base::name_thread("plans");
    serve_steps(parts_, stream.carrier);
    stream.carrier.cut();
    const base::MutexLock done(mu_);
    stream.has_ended = true;
    ended_.notify_all();
  });
}

void StepSockets::stop(TimePoint deadline) {
  std::list<std::unique_ptr<Stream>> streams;
  {
    base::MutexLock lock(mu_);
    ended_.wait_until(lock, deadline, [&]() REQUIRES(mu_) {
      return std::ranges::all_of(streams_, [](const auto& stream) { return stream->has_ended; });
    });
    for (const auto& stream : streams_) stream->carrier.cut();
    streams = std::move(streams_);
    streams_.clear();
  }
  for (const auto& stream : streams) stream->thread.join();
}

}  // namespace coxswain::rpc
