#include "fleet/import/cluster_command.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

const ClusterLayout kLayout{
    .n_replicas = 4, .tensor_parallel = 2, .drain_deadline = TimePoint{} + std::chrono::seconds(5)};

std::vector<ClusterCommand> commands(std::string_view body) {
  auto read = parse_cluster_command(body, kLayout);
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? read.value() : std::vector<ClusterCommand>{};
}

const Manual& manual(const ClusterCommand& command) {
  return std::get<Manual>(command.command);
}

TEST(ClusterCommand, MutationNamesReplicasByTheirRanks) {
  const auto read = commands(R"({"type":"TriggerMutation","data":{"stub_indices":[2,3,6]}})");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].replica, ReplicaId{1});
  EXPECT_EQ(read[1].replica, ReplicaId{3});
  EXPECT_EQ(manual(read[0]).verb, ManualVerb::kTransToDecode);
}

TEST(ClusterCommand, PrefillUpPairsNewAndOld) {
  const auto read = commands(
      R"({"type":"TriggerPrefillUp","data":{"old_stub_indices":[0],"new_stub_indices":[4,6]}})");
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(manual(read[0]).verb, ManualVerb::kTransToNewPrefill);
  EXPECT_EQ(manual(read[0]).source.peer.replica, ReplicaId{0});
  EXPECT_EQ(read[1].replica, ReplicaId{3});
  EXPECT_EQ(manual(read[2]).verb, ManualVerb::kTransToOldPrefill);
  EXPECT_EQ(read[2].replica, ReplicaId{0});
  EXPECT_EQ(manual(read[2]).target.replica, ReplicaId{2});
}

TEST(ClusterCommand, TheOthersAndBothSpellings) {
  auto read = commands(
      R"({"type":"TriggerDecodeUp","data":{"old_stub_indices":[0],"new_stub_indices":[2]}})");
  EXPECT_EQ(manual(read.at(0)).verb, ManualVerb::kTransToDecode);
  read = commands(
      R"({"type":"TriggerNormalUp","data":{"old_stub_indices":[0],"new_stub_indices":[2]}})");
  EXPECT_EQ(std::get<Load>(read.at(0).command).role, Role::kMixed);
  read = commands(R"({"type":"TriggerScaleDown","data":{"stub_indices":[0]}})");
  EXPECT_EQ(manual(read.at(0)).verb, ManualVerb::kDeactivate);
  EXPECT_EQ(manual(read.at(0)).deadline, kLayout.drain_deadline);
  for (const char* name : {"TriggerNoramalDown", "TriggerNormalDown"}) {
    read = commands(std::string(R"({"type":")") + name + R"(","data":{"stub_indices":[7]}})");
    EXPECT_EQ(std::get<BeginDrain>(read.at(0).command).deadline, kLayout.drain_deadline);
  }
}

TEST(ClusterCommand, RefusesByName) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {R"({"type":"TriggerUp","data":{}})",
       "type must be one of TriggerMutation, TriggerPrefillUp, TriggerDecodeUp, TriggerNormalUp, "
       "TriggerScaleDown, TriggerNoramalDown, TriggerNormalDown, given \"TriggerUp\""},
      {R"({"type":"TriggerMutation","data":{"stub_indices":[8]}})",
       "stub_indices must hold numbers below 8, given 8"},
      {R"({"type":"TriggerMutation","data":{"stub_indices":[-1]}})",
       "stub_indices must hold numbers below 8, given -1"},
      {R"({"type":"TriggerMutation","data":{"stub_indices":[]}})",
       "stub_indices must not be empty"},
      {R"({"type":"TriggerMutation","data":{"stub_indices":3}})", "stub_indices must be an array"},
      {R"({"type":"TriggerMutation","data":{}})", "stub_indices is missing in data"},
      {R"({"type":"TriggerMutation","data":{"stub_indices":[0],"x":1}})", "data has no member `x`"},
      {R"({"type":"TriggerMutation"})", "data is missing in the body"},
      {R"({"type":"TriggerMutation","data":[]})", "data must be an object"},
      {R"([])", "the body must be an object"},
      {R"({"type":"TriggerPrefillUp","data":{"old_stub_indices":[0,2],"new_stub_indices":[4]}})",
       "old_stub_indices must not be more than new_stub_indices, given 2 and 1"},
      {R"({"type":"TriggerNormalUp","data":{"old_stub_indices":[0],"new_stub_indices":[1]}})",
       "a replica must not be both old and new"}};
  for (const auto& [body, message] : cases) {
    const auto read = parse_cluster_command(body, kLayout);
    ASSERT_FALSE(read.ok()) << body;
    EXPECT_EQ(read.status().message(), message);
  }
  EXPECT_FALSE(parse_cluster_command("{", kLayout).ok());
}

}  // namespace
}  // namespace coxswain::fleet
