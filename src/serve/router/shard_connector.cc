#include "serve/router/shard_connector.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "rpc/peer_channel.h"
#include "rpc/sharded_client.h"
#include "rpc/stock/shard_client.h"
#include "serve/peer_files.h"
#include "serve/router/router_setup.h"
#include "tokenizer/text_codec.h"

namespace coxswain::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{30'000};  // then it stands still
constexpr milliseconds kPause{200};
constexpr milliseconds kWaitingLogged{5'000};

// It is on another machine.
bool is_remote(const std::string& place) {
  return !rpc::address_of_place(place).empty();
}

}  // namespace

ShardConnector::ShardConnector(const options::OptionValues& values,
                               std::string place,
                               bool below_launcher,
                               std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                               telemetry::Logger& log,
                               std::function<void()> on_lost)
    : values_(values),
      below_launcher_(below_launcher),
      tokenizer_(std::move(tokenizer)),
      log_(log),
      on_lost_(std::move(on_lost)),
      place_(std::move(place)) {}

void ShardConnector::set_place(std::string place) {
  const base::MutexLock lock(mu_);
  place_ = std::move(place);
}

std::string ShardConnector::place() const {
  const base::MutexLock lock(mu_);
  return place_;
}

bool ShardConnector::is_current() const {
  const base::MutexLock lock(mu_);
  return kept_ == place_;
}

Result<ShardConnector::Runner> ShardConnector::connect() {
  const std::string where = place();
  if (where.empty()) return Status(Code::kUnavailable, "nobody says where it is");
  auto runner = connect_once(where);
  if (!runner.ok()) return runner;
  note_shard_process(where);
  const base::MutexLock lock(mu_);
  tried_ = where;
  return runner;
}

void ShardConnector::keep() {
  const base::MutexLock lock(mu_);
  kept_ = tried_;
}

Result<ShardConnector::Runner> ShardConnector::connect_once(const std::string& place) const {
  const std::string& protocol = values_.get<"shard-protocol">();
  if (protocol != "generate.v3") {
    auto client = rpc::ShardedClient::connect(
        place, {.peer_files = peer_files(values_), .on_lost = on_lost_});
    if (client.ok()) return Runner(std::move(client).value());
    const bool is_stock = client.status().code() == Code::kUnimplemented;
    if (!is_stock || protocol == "engine") return client.status();
  }
  if (is_remote(place))
    return Status(Code::kUnimplemented, "shards of other machines speak our own stream");
  auto stock = stock_client_options(values_, tokenizer_->vocab_size());
  stock.link.on_lost = on_lost_;
  COXSWAIN_ASSIGN_OR_RETURN(
      auto client,
      rpc::StockShardClient::connect(
          place, stock, std::make_shared<const tokenizer::TokenizerCodec>(tokenizer_)));
  return Runner(std::move(client));
}

Result<ShardConnector::Runner> ShardConnector::connect_patiently() {
  TimePoint deadline = Clock::now() + kPatience;
  for (;;) {
    auto runner = connect();
    if (runner.ok() || runner.status().code() != Code::kUnavailable) return runner;
    if (Clock::now() >= deadline) {
      // One that is being loaded does not listen yet, so it is not found.
      note_shard_process(place());
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

void ShardConnector::note_shard_process(const std::string& place) {
  if (below_launcher_ && !is_remote(place)) shard_process_ = find_sibling(place);
}

void ShardConnector::end_stuck_shard() {
  if (!shard_process_ || !kill_sibling(*shard_process_)) return;
  log_.error("the shard stands still and is ended", {{"pid", std::int64_t{shard_process_->pid}}});
  shard_process_.reset();
}

}  // namespace coxswain::serve
