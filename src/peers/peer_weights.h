#pragma once
// PeerWeights: packed weights from other shards, over Engine.Weights.
//
//             pieces of the lanes in turn        read()
//   source 0 ---- lane 0 ----> queue ----.
//   source 1 ---- lane 1 ----> queue -----+----> image, checked piece by piece
//   source 2 (until one is lost)         -'
//
// Sources are taken in the order in which they are named, up to kLanesMax at once. One that ends, that lets a piece
// wait for longer than the limit, or whose bytes do not fit their checksum is left; those that are there then go on at
// the piece at which it stopped. One that was only lost is asked again, a few times, when lanes are opened the next
// time. A source may itself be loading from another one: that makes a chain, and then there is one lane.
//
// Thread rule: as ImageSource.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "security/peer_files.h"
#include "weights/image_source.h"

namespace coxswain::peers {

struct PeerWeightsOptions {
  // Paths of sockets, with or without "unix://", or "tcp://host:port".
  std::vector<std::string> addresses = {};
  security::PeerFiles peer_files = {};  // for those on other machines
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds piece_time_max{10'000};  // to wait for a MiB
  std::uint64_t rate_max_bytes = 0;                  // a second, of all sources; 0 = no limit
  // A line for the log: who sends, who was left and why.
  std::function<void(const std::string& line)> on_event = {};
};

class PeerWeights final : public weights::ImageSource {
 public:
  static constexpr std::size_t kLanesMax = 8;  // with four pieces of a MiB each that wait

  explicit PeerWeights(PeerWeightsOptions options);
  ~PeerWeights() override;

  Result<std::uint64_t> open(const std::string& key) override;
  Status read(std::uint64_t identity, std::span<std::byte> out, Arrived arrived) override;
  void stop() override;

 private:
  struct Source;
  struct Lane;

  // From the next piece on, with those that answer. Errors: kUnavailable, with what each said.
  Status open_lanes();
  Status read_piece(std::uint64_t identity, std::span<std::byte> out, std::size_t piece);
  void leave(Lane& lane, const Status& why);
  void say(const std::string& line) const;

  const PeerWeightsOptions options_;
  std::string key_;
  std::optional<std::uint64_t> fingerprint_;
  std::vector<Source> sources_;
  std::size_t section_ = 0;
  std::size_t piece_ = 0;
  struct Lanes;
  std::unique_ptr<Lanes> lanes_;  // never null
};

}  // namespace coxswain::peers
