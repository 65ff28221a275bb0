#pragma once
// MessageRoom: memory for one protobuf message at a time. A message of many rows is many small pieces; here they lie
// side by side, in memory that stays for the next one.
//
// Thread rule: one thread at a time.

#include <cstddef>
#include <vector>

#include <google/protobuf/arena.h>

namespace coxswain::rpc {

class MessageRoom {
 public:
  // An empty message. The one before is gone.
  template <typename Message>
  Message& make() {
    arena_.Reset();
    return *google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }

 private:
  // Of some hundred rows; for more the arena allocates.
  static constexpr std::size_t kBytes = std::size_t{64} << 10;

  static google::protobuf::ArenaOptions options_of(std::vector<char>& room) {
    google::protobuf::ArenaOptions out;
    out.initial_block = room.data();
    out.initial_block_size = room.size();
    return out;
  }

  std::vector<char> room_ = std::vector<char>(kBytes);
  google::protobuf::Arena arena_{options_of(room_)};
};

}  // namespace coxswain::rpc
