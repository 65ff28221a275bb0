#pragma once
// ServedRunner: a runner behind a shard's socket and the client that drives it, for the measurements that cross it;
// ServedShard without the client. Tokens have no text but what the runner gives them.
//
// Thread rule: one thread.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "require.h"
#include "rpc/shard_service.h"
#include "rpc/sharded_client.h"
#include "telemetry/log.h"

namespace coxswain::bench {

class NoText final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view, bool) const override {
    return std::vector<TokenId>{};
  }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::unique_ptr<Stream> stream(std::span<const TokenId>, bool) const override { return nullptr; }
  std::string token_text(TokenId) const override { return {}; }
  bool is_special(TokenId) const override { return false; }
};

// A runner behind a shard's socket.
class ServedShard {
 public:
  // Dies with a message if the socket cannot be had. `runner` outlives it. Several of a process have different names.
  explicit ServedShard(StepRunner& runner, std::string_view name = {})
      : service_(require(rpc::ShardService::start(runner, codec_, options(name), log_))) {}

  std::string socket_path() const { return service_->socket_path(); }

 private:
  // On a path that only this process uses.
  static rpc::ShardServiceOptions options(std::string_view name) {
    const std::string file = "coxswain-bench-" + std::to_string(::getpid()) + std::string(name);
    rpc::ShardServiceOptions out;
    out.socket_path = (std::filesystem::temp_directory_path() / file).string();
    return out;
  }

  NoText codec_;
  telemetry::Logger log_{{.level = telemetry::Level::kError, .target = "bench"}};
  std::unique_ptr<rpc::ShardService> service_;
};

class ServedRunner {
 public:
  // As ServedShard.
  explicit ServedRunner(StepRunner& runner, std::string_view name = {})
      : shard_(runner, name),
        client_(require(rpc::ShardedClient::connect(shard_.socket_path(), {}))) {}

  const std::shared_ptr<StepRunner>& client() const { return client_; }

 private:
  ServedShard shard_;
  std::shared_ptr<StepRunner> client_;
};

}  // namespace coxswain::bench
