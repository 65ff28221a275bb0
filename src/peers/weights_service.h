#pragma once
// The call Engine.Weights: packed weights of this process for others that load the same.
//
// A receiver gets what is there and then what arrives, so a shard that loads from another one can be loaded from
// meanwhile. It asks for a first piece, so whoever lost a sender goes on with the next one where it stopped.
//
// Thread rule: any thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "rpc/weights_sender.h"

namespace coxswain::weights {
class ImageStore;
}

namespace coxswain::peers {

// Bytes a second, of all that share the object.
class RateLimit {
 public:
  explicit RateLimit(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}  // 0: none
  // When so many bytes, which count from now on, may go.
  TimePoint take(std::size_t bytes);

 private:
  const std::uint64_t bytes_max_;
  std::atomic<TimePoint::rep> next_{0};  // when what was taken so far has gone
};

class WeightsService final : public rpc::WeightsSender {
 public:
  static constexpr std::size_t kReceiversMax = 8;  // at once; each holds a thread

  // `store` null: this shard has none to give.
  WeightsService(std::shared_ptr<const weights::ImageStore> store, std::uint64_t rate_max_bytes);

  // Errors: kInvalidArgument names what the keys differ in; kResourceExhausted: too many receivers; kUnavailable:
  // nothing to send; those of ImageStore::fail().
  Status send(grpc::ServerContext& context,
              const engine::v1::WeightsRequest& request,
              grpc::ServerWriter<engine::v1::WeightsPart>& writer) override;

 private:
  Status check(const engine::v1::WeightsRequest& request) const;
  Status send_pieces(grpc::ServerContext& context,
                     const engine::v1::WeightsRequest& request,
                     grpc::ServerWriter<engine::v1::WeightsPart>& writer);

  const std::shared_ptr<const weights::ImageStore> store_;
  RateLimit limit_;
  std::atomic<std::size_t> n_receivers_{0};
};

}  // namespace coxswain::peers
