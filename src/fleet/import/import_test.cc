#include "fleet/import/import.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fleet/import/deployment.h"
#include "options/options.h"

namespace coxswain::fleet {
namespace {

constexpr std::string_view kDeployment = R"({
  "init_states": ["Prefill", "Prefill", "Decode", "Inactive"],
  "replicas": [[0], [1], [2], [3]],
  "machines": [0, 0, 1, 1]
})";
constexpr std::string_view kStubs =
    R"(["http://h:50051", "unix:///tmp/a", "http://h:3", "http://h:4"])";
constexpr std::string_view kTemplate = R"([global]
num_gpus_per_node = 8
[router]
max_concurrent_requests = 4096
max_input_length = 4090
prefill_upper_bound = [0.4, 0.7]
max_total_tokens = [4096, 8192]
mock_load_millis = 0
[models.llama]
path = "/models/my llama"
tokens_prefilled_per_sec = 13000
num_hidden_layers = 32
[models.other]
path = "/models/other"
)";

std::string imported(const std::vector<ImportFile>& files) {
  const auto read = import_setup(files);
  return read.ok() ? text_of(read.value()) : read.status().message();
}

TEST(FleetImport, ADeploymentIsReplicasAndRoles) {
  EXPECT_EQ(imported({{"d.json", kDeployment}}),
            "text-generation-launcher --model-id MODEL --replicas 3 --roles prefill=2,decode=1\n"
            "\n"
            "without equivalent:\n"
            "  1 replicas of init_states Inactive: the launcher starts what serves\n"
            "  machines: 2: the launcher starts replicas on its own machine\n");
}

TEST(FleetImport, NormalReplicasAreTheDefault) {
  EXPECT_EQ(
      imported(
          {{"d", R"({"init_states":["Normal","Normal"],"replicas":[[0],[1]],"machines":[0,0]})"}}),
      "text-generation-launcher --model-id MODEL --replicas 2\n");
}

TEST(FleetImport, ATemplateIsACommandForEachModel) {
  const std::string text = imported({{"t.toml", kTemplate}, {"d", kDeployment}, {"s", kStubs}});
  EXPECT_EQ(
      text,
      "text-generation-launcher --model-id '/models/my llama' --max-concurrent-requests 4096 "
      "--max-input-tokens 4090 --replicas 3 --roles prefill=2,decode=1\n"
      "text-generation-launcher --model-id /models/other --max-concurrent-requests 4096 "
      "--max-input-tokens 4090 --replicas 3 --roles prefill=2,decode=1\n"
      "\n"
      "without equivalent:\n"
      "  [global] num_gpus_per_node = 8: of accelerators and their network\n"
      "  [router] prefill_upper_bound = [0.4,0.7]: constant prefill_backlog_s.upper of the "
      "planner, no option "
      "yet\n"
      "  [router] max_total_tokens = [4096,8192]: several values are several runs: choose one for "
      "--max-total-tokens\n"
      "  [router] mock_load_millis = 0: no option means this\n"
      "  [models.llama] tokens_prefilled_per_sec = 13000: constant tokens_prefilled_per_s of the "
      "planner, no "
      "option yet\n"
      "  [models.llama] num_hidden_layers = 32: read from the model\n"
      "  1 replicas of init_states Inactive: the launcher starts what serves\n"
      "  machines: 2: the launcher starts replicas on its own machine\n"
      "  4 stubs: the launcher starts its shards itself, on private Unix sockets\n");
}

TEST(FleetImport, EveryWordThatItPrintsIsAnOptionOfTheLauncher) {
  std::string router = "[router]\n";
  for (const char* key : {"max_concurrent_requests",
                          "max_best_of",
                          "max_stop_sequences",
                          "max_top_n_tokens",
                          "max_input_length",
                          "max_total_tokens",
                          "max_batch_prefill_tokens",
                          "max_batch_total_tokens",
                          "waiting_served_ratio",
                          "max_waiting_tokens",
                          "hostname",
                          "port",
                          "validation_workers",
                          "otlp_endpoint"}) {
    router += std::string(key) + " = 1\n";
  }
  const auto read = import_setup(std::vector<ImportFile>{{"t", router}, {"d", kDeployment}});
  ASSERT_TRUE(read.ok());
  std::size_t n = 0;
  for (const std::string& word : read.value().commands.at(0)) {
    if (!word.starts_with("--")) continue;
    ++n;
    EXPECT_NE(options::find_option(options::Binary::kLauncher, word.substr(2)), nullptr) << word;
  }
  EXPECT_EQ(n, 17U);
}

TEST(FleetImport, RefusesByFileAndName) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {R"({"init_states":["Idle"],"replicas":[[0]],"machines":[0]})",
       "f: init_states of rank 0 must be Prefill, Decode, Normal or Inactive, given \"Idle\""},
      {R"({"init_states":["Prefill"],"replicas":[[1]],"machines":[0]})",
       "f: replicas names rank 1, there are 1"},
      {R"({"init_states":["Prefill","Decode"],"replicas":[[0,1]],"machines":[0,0]})",
       "f: init_states of rank 1 must be that of its replica"},
      {R"({"init_states":["Prefill","Prefill"],"replicas":[[0,1]],"machines":[0,1]})",
       "f: machines of rank 1 must be that of its replica"},
      {R"({"init_states":["Prefill","Prefill"],"replicas":[[0],[0]],"machines":[0,0]})",
       "f: replicas has rank 0 twice"},
      {R"({"init_states":["Prefill","Prefill"],"replicas":[[0]],"machines":[0,0]})",
       "f: replicas must have every rank, given 1 of 2"},
      {R"({"init_states":["Prefill","Prefill","Prefill"],"replicas":[[0,1,2]],"machines":[0,0,0]})",
       "f: the size of replicas must be a power of two, given 3"},
      {R"({"init_states":["Prefill"],"replicas":[[0]],"machines":[]})",
       "f: machines must have an entry for each rank, given 0 for 1"},
      {R"({"init_states":["Prefill"],"replicas":[[0]]})", "f: machines is missing"},
      {R"({"init_states":["Prefill"],"replicas":[[0]],"machines":[0],"x":1})",
       "f: a deployment has init_states, replicas and machines, given `x`"},
      {R"(["ftp://x"])",
       "f: stub of rank 0 must be http://HOST:PORT or unix://PATH, given \"ftp://x\""},
      {"x = 1", "f: `x` must be in a table"},
      {"what", "f: line 1: `=` is expected behind `what`"}};
  for (const auto& [text, message] : cases) EXPECT_EQ(imported({{"f", text}}), message);
  EXPECT_EQ(imported({{"a", kStubs}, {"b", kStubs}}), "b: a second stub list of one set-up");
}

TEST(FleetImport, ReplicasOfSeveralRanksAreNamed) {
  const auto read = json::parse(
      R"({"init_states":["Normal","Normal","Normal","Normal"],"replicas":[[0,1],[2,3]],"machines":[0,0,1,1]})");
  const auto made = read_deployment(read.value());
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made.value().tensor_parallel, 2U);
  EXPECT_EQ(made.value().replicas.at(1).machine, 1U);
}

}  // namespace
}  // namespace coxswain::fleet
