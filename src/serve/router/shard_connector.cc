#include "serve/router/shard_connector.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "rpc/sharded_client.h"
#include "rpc/stock/shard_client.h"
#include "serve/router/router_setup.h"
#include "tokenizer/text_codec.h"

namespace coxswain::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{30'000};
constexpr milliseconds kPause{200};
constexpr milliseconds kWaitingLogged{5'000};

}  // namespace

ShardConnector::ShardConnector(const options::OptionValues& values,
                               std::string socket,
                               bool below_launcher,
                               std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                               telemetry::Logger& log,
                               std::function<void()> on_lost)
    : values_(values),
      socket_(std::move(socket)),
      below_launcher_(below_launcher),
      tokenizer_(std::move(tokenizer)),
      log_(log),
      on_lost_(std::move(on_lost)) {}

Result<ShardConnector::Runner> ShardConnector::connect() {
  auto runner = connect_once();
  if (runner.ok()) note_shard_process();
  return runner;
}

Result<ShardConnector::Runner> ShardConnector::connect_once() const {
  const std::string& protocol = values_.get<"shard-protocol">();
  if (protocol != "generate.v3") {
    auto client = rpc::ShardedClient::connect(socket_, {.on_lost = on_lost_});
    if (client.ok()) return Runner(std::move(client).value());
    const bool is_stock = client.status().code() == Code::kUnimplemented;
    if (!is_stock || protocol == "engine") return client.status();
  }
  auto stock = stock_client_options(values_, tokenizer_->vocab_size());
  stock.link.on_lost = on_lost_;
  COXSWAIN_ASSIGN_OR_RETURN(
      auto client,
      rpc::StockShardClient::connect(
          socket_, stock, std::make_shared<const tokenizer::TokenizerCodec>(tokenizer_)));
  return Runner(std::move(client));
}

Result<ShardConnector::Runner> ShardConnector::connect_patiently() {
  TimePoint deadline = Clock::now() + kPatience;
  for (;;) {
    auto runner = connect();
    if (runner.ok() || runner.status().code() != Code::kUnavailable) return runner;
    if (Clock::now() >= deadline) {
      if (!below_launcher_) return runner;
      // One that is being loaded does not listen yet, so it is not found.
      note_shard_process();
      end_stuck_shard();
      deadline = Clock::now() + kPatience;
    }
    log_.warn_limited("connect",
                      kWaitingLogged,
                      "waiting for the shard",
                      {{"reason", runner.status().message()}});
    std::this_thread::sleep_for(kPause);
  }
}

void ShardConnector::note_shard_process() {
  if (below_launcher_) shard_process_ = find_sibling(socket_);
}

void ShardConnector::end_stuck_shard() {
  if (!shard_process_ || !kill_sibling(*shard_process_)) return;
  log_.error("the shard stands still and is ended", {{"pid", std::int64_t{shard_process_->pid}}});
  shard_process_.reset();
}

}  // namespace coxswain::serve
