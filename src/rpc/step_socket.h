#pragma once
// StepSocket: one end of the Engine stream over a Unix socket of its own. It carries what Engine.Steps would, without
// the frames, queues and threads of gRPC, which cost more than the step of a small model.
//
// The router sends the byte kStepsFirst, by which the shard tells such a connection from one of gRPC. Then both sides
// send messages: four bytes, little-endian, with the length, and a protobuf message of that length.
//
// Thread rule: put(), flush() and has_unsent() belong to one thread, fill() and take() to one, wait() and shut_down()
// to all. No call but wait() blocks.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <google/protobuf/message_lite.h>

#include "rpc/unix_socket.h"

namespace coxswain::rpc {

constexpr char kStepsFirst = 's';

class StepSocket {
 public:
  // A connected socket that does not block. A message of more bytes ends the connection.
  StepSocket(Descriptor socket, std::size_t message_bytes_max);

  // Behind what is unsent.
  void put(const google::protobuf::MessageLite& message);
  // Sends what the socket takes. False: the peer is gone.
  bool flush();
  bool has_unsent() const { return n_sent_ < unsent_.size(); }

  // Reads some of what has come. False: the peer is gone.
  bool fill();
  enum class Taken : std::uint8_t { kNone, kMessage, kBroken };
  // The oldest message that is whole. kBroken: the peer sends what is none.
  Taken take(google::protobuf::MessageLite& to);

  // Until there is something to read, or room to write, or the connection has ended. False: `limit` is over; a negative
  // one never is.
  enum class For : std::uint8_t { kReading, kWriting, kBoth };
  bool wait(For what, std::chrono::milliseconds limit) const;

  // Both directions have ended then, for both sides.
  void shut_down();

 private:
  const Descriptor socket_;
  const std::size_t message_bytes_max_;
  std::string unsent_;
  std::size_t n_sent_ = 0;  // of `unsent_`
  // Up to `end_` it holds what has come; what lies before `begin_` has been taken.
  std::string arrived_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace coxswain::rpc
