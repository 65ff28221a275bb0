#include "serve/router/admin_documents.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(AdminDocuments, RequestsSayWhereTheyAre) {
  const TimePoint now = Clock::now();
  const std::vector<router::OpenRequest> requests{
      {.request_id = "a",
       .answer_id = "cmpl-1",
       .path = "/v1/completions",
       .key_name = "alice",
       .received = now - 1500ms,
       .prompt_tokens = 12,
       .generated_tokens = 3,
       .requests = {RequestId{1}, RequestId{2}}},
      {.request_id = "b", .path = "/generate", .received = now + 1s, .requests = {RequestId{3}}},
      {.request_id = "c", .path = "/generate", .received = now, .requests = {RequestId{4}}}};
  // The first of the prompts of `a` runs in two replicas, the second waits in one of them.
  const std::vector<fleet::RequestPlace> places{
      {RequestId{3}, {}, false}, {RequestId{1}, {0, 1}, true}, {RequestId{2}, {1}, false}};
  EXPECT_EQ(
      json::write(requests_document(requests, places, now)),
      R"({"requests":[{"id":"a","answer_id":"cmpl-1","route":"/v1/completions","key":"alice","age_ms":1500,)"
      R"("state":"running","replicas":[0,1],"prompt_tokens":12,"generated_tokens":3},)"
      R"({"id":"b","answer_id":null,"route":"/generate","key":null,"age_ms":0,)"
      R"("state":"queued","replicas":[],"prompt_tokens":0,"generated_tokens":0},)"
      R"({"id":"c","answer_id":null,"route":"/generate","key":null,"age_ms":0,)"
      R"("state":"ending","replicas":[],"prompt_tokens":0,"generated_tokens":0}]})");
}

TEST(AdminDocuments, MemoryIsThePlanOfTheShardAndWhatIsInUse) {
  ReplicaMemory one;
  one.status =
      json::parse(R"({"threads":4,"weight_bytes":100,"kv_bytes":50,"weights":[]})").value();
  one.info.dtype = "bfloat16";
  one.info.kv_groups = {
      {.layers = {0, 1}, .bytes_per_block = 64, .n_blocks = 9, .dtype = "float16"},
      {.layers = {2}, .kind = KvGroup::Kind::kWindow, .window = 32, .n_blocks = 3}};
  one.stats.blocks_total = 12;
  one.stats.blocks_leased = 5;
  one.stats.blocks_free = 7;
  one.stats.tier.blocks_held = 2;
  one.stats.tier.bytes_held = 128;
  one.stats.tier.memory_blocks_held = 1;
  one.stats.tier.memory_bytes_held = 64;
  one.host_bytes_max = 1000;
  one.file_bytes_max = 2000;
  const std::string text = json::write(memory_document({one, {}}));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"({"replicas":[{"replica":0,"dtype":"bfloat16","plan":{"weight_bytes":100,"weights":[],"kv_bytes":50},)"
          R"("kv":{"block_tokens":16,"groups":[{"kind":"full","dtype":"float16","layers":2,"blocks":9,"bytes_per_block":64},)"
          R"({"kind":"window","dtype":"","layers":1,"blocks":3,"bytes_per_block":0}],)"
          R"("blocks":{"total":12,"free":7,"cached":0,"leased":5,"retiring":0}},)"
          R"("tiers":{"memory":{"blocks":1,"bytes":64,"bytes_max":1000},"files":{"blocks":2,"bytes":128,"bytes_max":2000}}})"));
  EXPECT_THAT(text, HasSubstr(R"({"replica":1,"dtype":"","plan":null,)"));
}

TEST(AdminDocuments, ALogLevelIsReadAsLOG_LEVELIs) {
  EXPECT_EQ(read_log_level(R"({"log_level":"debug"})").value(), "debug");
  EXPECT_EQ(read_log_level(R"({"log_level":""})").value(), "");
  EXPECT_EQ(
      json::write(log_level_document("warn,text_generation_router=trace")),
      R"({"log_level":"warn,text_generation_router=trace","target":"text_generation_router",)"
      R"("level":"trace","not_reached":["text_generation_launcher","text-generation-server"]})");
}

TEST(AdminDocuments, AWrongLogLevelIsRefusedByName) {
  const auto refusal = [](std::string_view body) {
    const Status status = read_log_level(body).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << body;
    return status.message();
  };
  EXPECT_THAT(refusal("{"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("[]"), HasSubstr("an object with `log_level`"));
  EXPECT_THAT(refusal("{}"), HasSubstr("`log_level` is missing"));
  EXPECT_THAT(refusal(R"({"log_level":"info","level":"info"})"), HasSubstr("`level` is no member"));
  EXPECT_THAT(refusal(R"({"log_level":5})"), HasSubstr("must be a text. Given: 5"));
  EXPECT_THAT(refusal(R"({"log_level":"inof"})"),
              AllOf(HasSubstr("`log_level`: "), HasSubstr("`inof` has no effect")));
  EXPECT_THAT(refusal(R"({"log_level":")" + std::string(1025, ' ') + R"("})"),
              HasSubstr("at most 1024 bytes. Given: 1025"));
}

}  // namespace
}  // namespace coxswain::serve
