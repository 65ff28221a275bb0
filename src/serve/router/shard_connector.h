#pragma once
// ShardConnector: how the router reaches the shard of a replica, at the start and after each loss.
//
// It speaks our own stream (rpc::ShardedClient), or generate.v3 (rpc::StockShardClient) with shards
// that know nothing else or if --shard-protocol says so. Below a launcher it knows the shard's
// process, so that one that stands still can be ended: the launcher sees a death like any other and
// starts the next one.
//
// Thread rule: one thread at a time: main() until connected, then the supervisor's of its replica. Places: any thread.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "base/mutex.h"
#include "options/options.h"
#include "serve/sibling.h"
#include "telemetry/log.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::serve {

class ShardConnector {
 public:
  using Runner = std::shared_ptr<StepRunner>;

  // To the shard at `place`, a socket or tcp://HOST:PORT. `values` of the router and the log must outlive this.
  // `on_lost`: rpc::ClientOptions::on_lost.
  ShardConnector(const options::OptionValues& values,
                 std::string place,
                 bool below_launcher,
                 std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                 telemetry::Logger& log,
                 std::function<void()> on_lost);

  // One try. Errors: kUnavailable if nobody serves there yet; others will not go away by waiting.
  Result<Runner> connect();
  // Below a launcher, which ends everything if no shard comes back: for as long as it takes.
  Result<Runner> connect_patiently();
  // Where connect() goes from now on. Empty: nowhere.
  void set_place(std::string place) EXCLUDES(mu_);
  std::string place() const EXCLUDES(mu_);
  // What connect() gave last is in use from now on.
  void keep() EXCLUDES(mu_);
  // Whether what is in use is at the place of now.
  bool is_current() const EXCLUDES(mu_);
  // Kills the shard that was connected last. Nothing happens if it is gone, or no sibling of ours.
  void end_stuck_shard();

 private:
  Result<Runner> connect_once(const std::string& place) const;
  void note_shard_process(const std::string& place);

  const options::OptionValues& values_;
  const bool below_launcher_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  telemetry::Logger& log_;
  const std::function<void()> on_lost_;
  std::optional<Sibling> shard_process_;
  mutable base::Mutex mu_;
  std::string place_ GUARDED_BY(mu_);
  std::string tried_ GUARDED_BY(mu_);  // where connect() was last
  std::string kept_ GUARDED_BY(mu_);
};

}  // namespace coxswain::serve
