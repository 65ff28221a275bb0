#include "serve/router/router_setup.h"

#include <initializer_list>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

options::OptionValues values_of(std::initializer_list<const char*> arguments,
                                const options::Environment& environment = {}) {
  std::vector<const char*> argv{"text-generation-router"};
  argv.insert(argv.end(), arguments);
  auto result = options::parse(
      options::Binary::kRouter, static_cast<int>(argv.size()), argv.data(), environment);
  EXPECT_EQ(result.exit_code, std::nullopt) << result.output;
  return std::move(result.values);
}

RunnerInfo any_info() {
  RunnerInfo info;
  info.model_id = "folder";
  info.vocab_size = 100;
  info.block_tokens = 16;
  info.capabilities.takes_ids = true;
  return info;
}

// A default stands in the option table; those of the library say the same.
TEST(RouterSetup, DefaultsOfTheTableAreThoseOfTheHttpServer) {
  std::vector<std::string> warnings;
  const http::ServerOptions from_table = server_options(values_of({}), 100'000, warnings);
  const http::ServerOptions own;
  EXPECT_EQ(from_table.address, own.address);
  EXPECT_EQ(from_table.port, own.port);
  EXPECT_EQ(from_table.threads, own.threads);
  EXPECT_EQ(from_table.request_line_bytes_max, own.request_line_bytes_max);
  EXPECT_EQ(from_table.header_line_bytes_max, own.header_line_bytes_max);
  EXPECT_EQ(from_table.header_count_max, own.header_count_max);
  EXPECT_EQ(from_table.headers_bytes_max, own.headers_bytes_max);
  EXPECT_EQ(from_table.body_bytes_max, own.body_bytes_max);
  EXPECT_EQ(from_table.bodies_bytes_max, own.bodies_bytes_max);
  EXPECT_EQ(from_table.connections_max, own.connections_max);
  EXPECT_EQ(from_table.connections_per_address_max, own.connections_per_address_max);
  EXPECT_EQ(from_table.requests_per_connection_max, own.requests_per_connection_max);
  EXPECT_EQ(from_table.unsent_bytes_max, own.unsent_bytes_max);
  EXPECT_EQ(from_table.header_timeout, own.header_timeout);
  EXPECT_EQ(from_table.body_gap_timeout, own.body_gap_timeout);
  EXPECT_EQ(from_table.body_timeout, own.body_timeout);
  EXPECT_EQ(from_table.idle_timeout, own.idle_timeout);
  EXPECT_EQ(from_table.stall_timeout, own.stall_timeout);
  EXPECT_THAT(from_table.cors_allow_origins, ElementsAre("*"));
  EXPECT_TRUE(warnings.empty());
}

TEST(RouterSetup, ConnectionsFitIntoTheOpenFiles) {
  std::vector<std::string> warnings;
  EXPECT_EQ(server_options(values_of({}), 10'128, warnings).connections_max, 10'000U);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(server_options(values_of({}), 1'024, warnings).connections_max, 896U);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0],
            "`--connections-max` 10000 does not fit into 1024 open files, 896 is used; raise the "
            "limit of this user "
            "(ulimit -n, LimitNOFILE=)");
  EXPECT_GT(server_options(values_of({}), 0, warnings).connections_max, 0U);
}

TEST(RouterSetup, TheKvCacheIsCountedInWholeBlocks) {
  request::TokenLimits limits;
  limits.batch_total_tokens_max = 33;
  EXPECT_EQ(engine_options(values_of({}), limits, any_info()).batch_total_tokens_max, 48U);
}

TEST(RouterSetup, PrefixesAreCachedUnlessSomethingIsAgainstIt) {
  EXPECT_TRUE(engine_options(values_of({}), {}, any_info()).prefix_caching);
  EXPECT_FALSE(
      engine_options(values_of({}, {{"PREFIX_CACHING", "0"}}), {}, any_info()).prefix_caching);
  RunnerInfo stock = any_info();
  stock.capabilities.takes_ids = false;
  EXPECT_FALSE(engine_options(values_of({}), {}, stock).prefix_caching);
}

TEST(RouterSetup, OptionsReachTheEngine) {
  const auto options = engine_options(
      values_of(
          {"--capacity-policy=guaranteed-no-evict", "--max-batch-size=7", "--target-itl-ms=120"}),
      {},
      any_info());
  EXPECT_EQ(options.policy, CapacityPolicy::kGuaranteedNoEvict);
  EXPECT_EQ(options.batch_size_max, 7U);
  EXPECT_EQ(options.target_itl, std::chrono::milliseconds(120));
  const auto policy_of = [](const char* flag) {
    return engine_options(values_of({flag}), {}, any_info()).policy;
  };
  EXPECT_EQ(policy_of("--capacity-policy=static-batch"), CapacityPolicy::kStaticBatch);
  EXPECT_EQ(policy_of("--capacity-policy=max-utilization"), CapacityPolicy::kMaxUtilization);
  EXPECT_EQ(policy_of("--capacity-policy=adaptive"), CapacityPolicy::kAdaptive);
  EXPECT_EQ(engine_options(values_of({}), {}, any_info()).policy, CapacityPolicy::kAdaptive);
}

TEST(RouterSetup, PlacesOfShardsAreChecked) {
  const auto refusal = [](std::initializer_list<const char*> arguments) {
    return check_places(values_of(arguments)).message();
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({"--master-shard-uds-path=tcp://a:1", "--replica-uds-path=/run/b"}), "");
  EXPECT_THAT(refusal({"--replica-uds-path=tcp://b"}), StartsWith("shard tcp://b: `address` must"));
  EXPECT_EQ(refusal({"--membership=etcd"}), "");
  EXPECT_THAT(refusal({"--membership=etcd", "--master-shard-uds-path=/run/b"}),
              StartsWith("`membership` etcd says which shards there are"));
}

TEST(RouterSetup, MembersHaveAReplicaEachAndBringTheirRoles) {
  EXPECT_EQ(replica_roles(values_of({"--membership=etcd", "--members-max=3"})).value(),
            std::vector(3, fleet::Role::kMixed));
  EXPECT_EQ(replica_roles(values_of({"--replica-uds-path=/run/b"})).value().size(), 2U);
  EXPECT_THAT(replica_roles(values_of({"--membership=etcd", "--roles=prefill=1,decode=1"}))
                  .status()
                  .message(),
              StartsWith("`roles` are said by the members"));
}

TEST(RouterSetup, TheModelIsNamedAsItIsServed) {
  EXPECT_EQ(api_options(values_of({}), {}, any_info()).model_id, "folder");
  EXPECT_EQ(api_options(values_of({"--tokenizer-name=/m/a"}), {}, any_info()).model_id, "/m/a");
  EXPECT_EQ(
      api_options(values_of({"--tokenizer-name=/m/a", "--served-model-name=a"}), {}, any_info())
          .model_id,
      "a");
}

TEST(RouterSetup, GrammarsAreAllowedUnlessTheyAreNot) {
  EXPECT_TRUE(api_options(values_of({}), {}, any_info()).limits.allows_grammars);
  RunnerInfo stock = any_info();
  stock.capabilities.takes_ids = false;
  EXPECT_TRUE(api_options(values_of({}), {}, stock).limits.grammars_are_patterns);
  EXPECT_FALSE(api_options(values_of({}), {}, any_info()).limits.grammars_are_patterns);
  EXPECT_FALSE(
      api_options(values_of({"--disable-grammar-support"}), {}, any_info()).limits.allows_grammars);
}

TEST(RouterSetup, LimitsGivenAreToldFromDefaults) {
  const auto none = token_limit_options(values_of({}));
  EXPECT_EQ(none.input_tokens_max, std::nullopt);
  EXPECT_FALSE(none.batch_prefill_given);
  const auto some =
      token_limit_options(values_of({"--max-input-tokens=5", "--max-batch-prefill-tokens=9"}));
  EXPECT_EQ(some.input_tokens_max, 5U);
  EXPECT_TRUE(some.batch_prefill_given);
  EXPECT_EQ(some.batch_prefill_tokens_max, 9U);
}

TEST(RouterSetup, AStockShardIsToldTheLimits) {
  const auto options =
      stock_client_options(values_of({"--max-total-tokens=70", "--max-batch-size=3"}), 300);
  EXPECT_EQ(options.vocab_size, 300U);
  EXPECT_EQ(options.limits.total_tokens_max, 70U);
  EXPECT_EQ(options.limits.batch_size_max, 3U);
}

TEST(RouterSetup, TheLogIsAsTheEnvironmentWantsIt) {
  const auto log = log_options(values_of({}, {{"LOG_LEVEL", "debug"}, {"LOG_COLORIZE", "true"}}));
  EXPECT_EQ(log.level, telemetry::Level::kDebug);
  EXPECT_TRUE(log.colour);
  EXPECT_FALSE(log_options(values_of({})).colour);
}

}  // namespace
}  // namespace coxswain::serve
