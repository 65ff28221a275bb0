#pragma once
// StockLink: the gRPC connections to all shards of one stock replica (generate.v3, unary calls).
//
// Every call goes to all shards at once with the same content and returns when all have answered.
// As in ShardLink a second connection to each shard carries Health alone, and nothing is connected
// again: a lost shard is another life.
//
// Errors of every call: kUnavailable if a shard is gone or does not answer in time; kInternal with
// "Server error: " and the shard's text if it refused or failed.
//
// Thread rule: one call at a time; health() and cancel() may be called by any thread.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "rpc/shard_link.h"

namespace generate::v3 {
class ClearCacheRequest;
class DecodeRequest;
class DecodeResponse;
class FilterBatchRequest;
class InfoResponse;
class PrefillRequest;
class PrefillResponse;
class WarmupRequest;
class WarmupResponse;
}  // namespace generate::v3

namespace coxswain::rpc {

struct StockTimeouts {
  std::chrono::milliseconds warmup{600'000};
  std::chrono::milliseconds step{600'000};  // Prefill and Decode
};

class StockLink {
 public:
  // Connects to the shard at `path` and to those that it names.
  static Result<std::unique_ptr<StockLink>> connect(const std::string& path,
                                                    const ClientOptions& options,
                                                    const StockTimeouts& timeouts);
  ~StockLink();
  StockLink(const StockLink&) = delete;
  StockLink& operator=(const StockLink&) = delete;

  // One answer for each shard, by rank.
  Result<std::vector<generate::v3::InfoResponse>> info();
  Result<std::vector<generate::v3::WarmupResponse>> warmup(
      const generate::v3::WarmupRequest& request);
  Result<std::vector<generate::v3::PrefillResponse>> prefill(
      const generate::v3::PrefillRequest& request);
  Result<std::vector<generate::v3::DecodeResponse>> decode(
      const generate::v3::DecodeRequest& request);
  Status filter(const generate::v3::FilterBatchRequest& request);
  Status clear(const generate::v3::ClearCacheRequest& request);

  Status health() const;
  // Ends the call that runs, and every later one, with kUnavailable. From any thread.
  void cancel();

 private:
  struct Impl;
  explicit StockLink(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::rpc
