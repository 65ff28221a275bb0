#include "serve/shard/shard_setup.h"

#include <fcntl.h>
#include <fstream>
#include <initializer_list>
#include <string>
#include <unistd.h>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

options::OptionValues values_of(std::initializer_list<const char*> arguments) {
  std::vector<const char*> argv{"text-generation-server", "serve", "/m/a"};
  argv.insert(argv.end(), arguments);
  auto result =
      options::parse(options::Binary::kServer, static_cast<int>(argv.size()), argv.data(), {});
  EXPECT_EQ(result.exit_code, std::nullopt) << result.output;
  return std::move(result.values);
}

TEST(LoadProgress, ALineEveryInterval) {
  const base::TempFolder folder;
  const std::string path = folder.file("log");
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  {
    telemetry::Logger log({.target = "shard", .file_descriptor = fd});
    LoadProgress rare(log, std::chrono::hours(1));
    rare(1 << 20, 4 << 20);
    LoadProgress often(log, std::chrono::milliseconds(0));
    often(0, 0);
    often(1 << 20, 4 << 20);
    often(4 << 20, 4 << 20);
  }
  close(fd);
  std::ifstream file(path);
  std::string first;
  std::string second;
  std::string none;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_THAT(first, HasSubstr("INFO shard: Loading weights: 25 % (1.00 MiB of 4.00 MiB), "));
  EXPECT_THAT(first, ContainsRegex("[0-9.]+ [A-Z][a-zA-Z]*/s, [0-9]+ s left"));
  EXPECT_THAT(second, HasSubstr("Loading weights: 100 %"));
  EXPECT_THAT(second, HasSubstr("/s, 0 s left"));
  EXPECT_FALSE(std::getline(file, none)) << none;
}

TEST(ShardSetup, DefaultsLeaveTheChoiceToTheRunner) {
  const runner::RunnerOptions options = runner_options(values_of({}));
  EXPECT_EQ(options.model_dir, "/m/a");
  EXPECT_EQ(options.model_id, "/m/a");
  EXPECT_EQ(options.dtype, std::nullopt);
  EXPECT_EQ(options.kv_dtype, std::nullopt);
  EXPECT_EQ(options.isa, "");
  EXPECT_EQ(options.weights_cache_dir, "");
  const runner::RunnerOptions own;
  EXPECT_EQ(options.block_tokens, own.block_tokens);
  EXPECT_EQ(options.n_threads, own.n_threads);
  EXPECT_EQ(options.max_batch_prefill_tokens, own.max_batch_prefill_tokens);
  EXPECT_EQ(options.max_batch_size, own.max_batch_size);
}

TEST(ShardSetup, OptionsReachTheRunner) {
  const runner::RunnerOptions options = runner_options(values_of({"--dtype=bfloat16",
                                                                  "--kv-cache-dtype=int8",
                                                                  "--quantize=int8",
                                                                  "--weights-cache-dir=/w",
                                                                  "--weights-cache-bytes-max=7",
                                                                  "--isa=scalar",
                                                                  "--pin-threads",
                                                                  "--block-tokens=32",
                                                                  "--max-total-tokens=70",
                                                                  "--max-attention-window=64,0,9",
                                                                  "--sink-token-length=4",
                                                                  "--speculate=5",
                                                                  "--speculative-model=/d",
                                                                  "--max-batch-size=3"}));
  EXPECT_EQ(options.dtype, tensor::DType::kBf16);
  EXPECT_EQ(options.kv_dtype, tensor::DType::kI8);
  EXPECT_EQ(options.quantize, "int8");
  EXPECT_EQ(options.weights_cache_dir, "/w");
  EXPECT_EQ(options.weights_cache_bytes_max, 7U);
  EXPECT_EQ(options.isa, "scalar");
  EXPECT_TRUE(options.pin_threads);
  EXPECT_EQ(options.block_tokens, 32U);
  EXPECT_EQ(options.max_total_tokens, 70U);
  EXPECT_EQ(options.max_batch_size, 3U);
  EXPECT_EQ(options.draft_tokens_max, 5U);
  EXPECT_EQ(options.speculative_model_dir, "/d");
  EXPECT_EQ(options.windows,
            (model::WindowLimits{.max_attention_window = {64, 0, 9}, .sink_token_length = 4}));
}

TEST(ShardSetup, OneRopeOptionStandsForBoth) {
  using model::RopeOverride;
  using model::RopeScaling;
  const auto rope = [](std::initializer_list<const char*> given) {
    return runner_options(values_of(given)).rope;
  };
  EXPECT_EQ(rope({}), std::nullopt);
  EXPECT_EQ(rope({"--rope-factor=4"}),
            (RopeOverride{.scaling = RopeScaling::kLinear, .factor = 4.0}));
  EXPECT_EQ(rope({"--rope-scaling=dynamic"}),
            (RopeOverride{.scaling = RopeScaling::kDynamic, .factor = 1.0}));
  EXPECT_EQ(rope({"--rope-scaling=dynamic", "--max-total-tokens=70"})->positions_min, 70U);
  EXPECT_EQ(rope({"--rope-scaling=linear", "--rope-factor=1.5"}),
            (RopeOverride{.scaling = RopeScaling::kLinear, .factor = 1.5}));
}

TEST(ShardSetup, SourcesOfWeightsStandBetweenCommas) {
  EXPECT_TRUE(weights_sources(values_of({})).empty());
  EXPECT_EQ(weights_sources(values_of({"--weights-from", "unix:///a,/b,,c"})),
            (std::vector<std::string>{"unix:///a", "/b", "c"}));
}

TEST(ShardSetup, PackedWeightsAreToldByWhatBecameOfThem) {
  model::WeightCacheUse use;
  EXPECT_EQ(packed_text(use), "");
  use = {.path = "/w/a", .bytes_read = 0, .bytes_written = 0, .seconds = 4.126};
  EXPECT_EQ(packed_text(use), "not kept, made in 4.13 s");
  use.bytes_written = std::uint64_t{3} << 20;
  EXPECT_EQ(packed_text(use), "3.00 MiB written to /w/a in 4.13 s");
  use.bytes_read = std::uint64_t{1} << 20;  // a part, before damage was met
  EXPECT_EQ(packed_text(use), "3.00 MiB written to /w/a in 4.13 s");
  use.bytes_written = 0;
  EXPECT_EQ(packed_text(use), "1.00 MiB read from /w/a in 4.13 s");
}

TEST(ShardSetup, SaysWhatIsShared) {
  model::SharedWeights use;
  EXPECT_EQ(shared_text(use, 4), "");
  use = {.bytes = std::uint64_t{3} << 30, .seconds = 2.314};
  EXPECT_EQ(shared_text(use, 4),
            "3.00 GiB of 4 replicas, filled in 2.31 s, none in pages of 2 MiB");
  use.huge_bytes = std::uint64_t{1} << 30;
  use.was_filled = true;
  EXPECT_EQ(shared_text(use, 4),
            "3.00 GiB of 4 replicas, mapped in 2.31 s, 1.00 GiB in pages of 2 MiB");
}

TEST(ShardSetup, FailuresHaveTheirCureAndCode) {
  const StartFailure files = model_failure(Status(Code::kDataLoss, "cut short"));
  EXPECT_EQ(files.variant, "ShardCannotStart");
  EXPECT_EQ(files.exit_code, kExitModel);
  EXPECT_THAT(files.cure, HasSubstr("folder of the model"));
  const StartFailure memory = model_failure(Status(Code::kResourceExhausted, "too little"));
  EXPECT_EQ(memory.exit_code, kExitFailure);
  EXPECT_THAT(memory.cure, HasSubstr("--memory-bytes-max"));
  EXPECT_THAT(path_failure(invalid_argument("long")).cure, HasSubstr("shorter"));
  EXPECT_THAT(path_failure(Status(Code::kFailedPrecondition, "taken")).cure,
              HasSubstr("Stop that server"));
  EXPECT_THAT(path_failure(Status(Code::kUnavailable, "no")).cure, HasSubstr("write to"));
  EXPECT_EQ(socket_failure(Status(Code::kUnavailable, "no")).exit_code, kExitFailure);
}

}  // namespace
}  // namespace coxswain::serve
