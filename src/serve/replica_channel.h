#pragma once
// ReplicaChannel: how the router asks the launcher for processes of replicas, and is told what became of them. A pair
// of private sockets; the launcher hands one end down and keeps both open, so a router that is started again goes on
// with the same one. A message is a packet of one line, "start 2"; sending never blocks.
//
//   start K, stop K            router to launcher
//   ready K, ended K, failed K launcher to router: K serves; has no process any more; ended before it served
//
// Thread rule: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::serve {

// Names the router's end, and how many replicas have processes when it starts: "7:1".
inline constexpr const char* kReplicaChannelVariable = "COXSWAIN_REPLICA_CHANNEL";

enum class ReplicaVerb : std::uint8_t { kStart, kStop, kReady, kEnded, kFailed };

struct ReplicaMessage {
  ReplicaVerb verb = ReplicaVerb::kStart;
  std::size_t replica = 0;
  friend bool operator==(const ReplicaMessage&, const ReplicaMessage&) = default;
};

std::string to_text(const ReplicaMessage& message);
// Errors: kInvalidArgument: no verb, or no replica below `n_replicas`.
Result<ReplicaMessage> parse_replica_message(std::string_view text, std::size_t n_replicas);

class ReplicaChannel {
 public:
  static Result<std::pair<ReplicaChannel, ReplicaChannel>> make();
  // Of kReplicaChannelVariable's value. Errors: kInvalidArgument: it names no such socket.
  static Result<std::pair<ReplicaChannel, std::size_t>> inherit(std::string_view text);

  ~ReplicaChannel();
  ReplicaChannel(ReplicaChannel&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ReplicaChannel& operator=(ReplicaChannel&&) = delete;

  int fd() const { return fd_; }
  // Errors: kUnavailable: nobody reads, or the other end has more to read than fits.
  Status send(const ReplicaMessage& message) const;
  // What there is, a bounded number of messages at a time. `on_bad`: told what is none.
  std::vector<ReplicaMessage> receive(std::size_t n_replicas,
                                      const std::function<void(const Status&)>& on_bad) const;

 private:
  explicit ReplicaChannel(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace coxswain::serve
