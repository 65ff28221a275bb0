#pragma once
// ShardConnector: how the router reaches the shard of a replica, at the start and after each loss.
//
// It speaks our own stream (rpc::ShardedClient), or generate.v3 (rpc::StockShardClient) with shards
// that know nothing else or if --shard-protocol says so. Below a launcher it knows the shard's
// process, so that one that stands still can be ended: the launcher sees a death like any other and
// starts the next one.
//
// Thread rule: one thread at a time: main() until connected, then the supervisor's of its replica.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "options/options.h"
#include "serve/sibling.h"
#include "telemetry/log.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::serve {

class ShardConnector {
 public:
  using Runner = std::shared_ptr<StepRunner>;

  // To the shard at `socket`. `values` of the router and the log must outlive this.
  // `on_lost`: rpc::ClientOptions::on_lost.
  ShardConnector(const options::OptionValues& values,
                 std::string socket,
                 bool below_launcher,
                 std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                 telemetry::Logger& log,
                 std::function<void()> on_lost);

  // One try. Errors: kUnavailable if nobody serves there yet; others will not go away by waiting.
  Result<Runner> connect();
  // Tries again for 30 s, for the shard may be about to come back from a restart; below a launcher,
  // which ends everything if no shard comes back, for as long as it takes.
  Result<Runner> connect_patiently();
  // Kills the shard that was connected last. Nothing happens if it is gone, or no sibling of ours.
  void end_stuck_shard();

 private:
  Result<Runner> connect_once() const;
  void note_shard_process();

  const options::OptionValues& values_;
  const std::string socket_;
  const bool below_launcher_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  telemetry::Logger& log_;
  const std::function<void()> on_lost_;
  std::optional<Sibling> shard_process_;
};

}  // namespace coxswain::serve
