#pragma once
// Peer: a LocalRunner driven step by step, in this process or behind a shard's socket, for tests of what
// step_runner.h promises beside rows and tokens.
//
// Thread rule: one thread.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "rpc/shard_service.h"
#include "rpc/sharded_client.h"
#include "runner/fake_model.h"
#include "runner/local_runner.h"

namespace coxswain::runner::testing {

inline constexpr std::uint32_t kBlockTokens = 8;
inline constexpr std::uint32_t kBlocksOfOne = 8;  // room for 64 positions
inline constexpr std::uint64_t kAttachmentBytes = std::uint64_t{8} << 20;

inline RunnerOptions small_options() {
  RunnerOptions options;
  options.block_tokens = kBlockTokens;
  options.kv_blocks = 100;
  options.n_threads = 1;
  options.memory_budget_bytes = std::uint64_t{1} << 30;
  options.max_batch_prefill_tokens = 64;
  options.max_batch_size = 8;
  options.attachment_bytes_max = kAttachmentBytes;
  return options;
}

// A runner, driven directly or through a shard's socket.
class Peer {
 public:
  Peer(std::unique_ptr<LocalRunner> runner, bool streamed) : runner_(std::move(runner)) {
    if (!streamed) return;
    codec_ = make_fake_codec();
    auto service =
        rpc::ShardService::start(*runner_, *codec_, {.socket_path = folder_.file("shard-0")}, log_);
    EXPECT_TRUE(service.ok()) << service.status().message();
    service_ = std::move(service).value();
    auto client = rpc::ShardedClient::connect(service_->socket_path(), {});
    EXPECT_TRUE(client.ok()) << client.status().message();
    client_ = std::move(client).value();
  }
  ~Peer() { client_.reset(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  StepRunner& operator*() { return client_ ? static_cast<StepRunner&>(*client_) : *runner_; }
  StepRunner* operator->() { return &**this; }
  LocalRunner& local() { return *runner_; }
  void hang_up() { client_.reset(); }

  Result<StepResult> try_run(StepPlan plan) {
    plan.step = ++step_;
    plan.epoch = runner_->info().epoch;
    return (**this).run(std::move(plan));
  }
  StepResult run(StepPlan plan) {
    auto result = try_run(std::move(plan));
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? std::move(result).value() : StepResult{};
  }

 private:
  base::TempFolder folder_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "seams_test", .file_descriptor = -1}};
  std::unique_ptr<LocalRunner> runner_;
  std::shared_ptr<const TextCodec> codec_;
  std::unique_ptr<rpc::ShardService> service_;
  std::unique_ptr<rpc::ShardedClient> client_;
  std::uint64_t step_ = 100;
};

inline std::unique_ptr<LocalRunner> fake_runner(const RunnerOptions& options = small_options()) {
  auto runner = LocalRunner::create_with(options, make_fake_model(), make_fake_codec(), "fake-1");
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return std::move(runner).value();
}

// The blocks of the n-th place: no two places share one.
inline std::vector<BlockTableChange> table_of(StepRunner& runner, std::uint32_t place) {
  std::vector<BlockTableChange> out;
  for (std::uint32_t g = 0; g < runner.info().kv_groups.size(); ++g) {
    BlockTableChange& change = out.emplace_back();
    change.kv_group = g;
    for (std::uint32_t i = 0; i < kBlocksOfOne; ++i)
      change.blocks.push_back(1 + place * kBlocksOfOne + i);
  }
  return out;
}

struct Text {
  std::vector<OutputToken> tokens;
  std::optional<SequenceFinish> finish;
  friend bool operator==(const Text&, const Text&) = default;
};

inline void add(Text& text, SequenceResult result) {
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  for (OutputToken& token : result.tokens) text.tokens.push_back(std::move(token));
  if (result.finish) text.finish = std::move(result.finish);
}

// Where the blocks of a sequence are, and which of its rows are known and not computed.
struct Known {
  std::uint32_t place = 0;
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

// Rows [known.first, known.end), then up to n_tokens tokens. `plan` comes before the first row.
inline Text generate(
    Peer& peer, SequenceId id, const Known& known, std::size_t n_tokens, StepPlan plan = {}) {
  const auto [place, first, n_known] = known;
  Text out;
  plan.rows.push_back({.sequence = id,
                       .first_position = first,
                       .n_tokens = n_known - first,
                       .table_changes = table_of(*peer, place),
                       .emit = Emit::kSample});
  add(out, peer.run(std::move(plan)).sequences.at(0));
  while (out.tokens.size() < n_tokens && !out.finish) {
    StepPlan next;
    next.rows = {{.sequence = id, .n_tokens = 1, .continues = true, .emit = Emit::kSample}};
    add(out, peer.run(std::move(next)).sequences.at(0));
  }
  return out;
}

// `spec` with the first n_output of `tokens` as produced, and `append` behind them.
inline SequenceSpec with_history(SequenceSpec spec,
                                 SequenceId id,
                                 const std::vector<OutputToken>& tokens,
                                 std::size_t n_output,
                                 const std::vector<TokenId>& append) {
  spec.id = id;
  for (std::size_t i = 0; i < n_output; ++i) spec.produced.push_back(tokens[i].id);
  spec.produced.insert(spec.produced.end(), append.begin(), append.end());
  return spec;
}

inline std::uint32_t length(const SequenceSpec& spec) {
  return static_cast<std::uint32_t>(spec.prompt.size() + spec.produced.size());
}

}  // namespace coxswain::runner::testing
