#include "serve/launcher_report.h"

#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LogForwarderTest : public ::testing::Test {
 protected:
  ~LogForwarderTest() override { close(fd_); }

  // What the launcher's log says after `line`.
  std::string after(const std::string& service, supervise::Stream stream, std::string_view line) {
    {
      telemetry::Logger log(
          {.level = telemetry::Level::kTrace, .target = "launcher", .file_descriptor = fd_});
      LogForwarder forwarder(log);
      forwarder.on_line(service, stream, line);
    }
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  base::TempFolder folder_;
  std::string path_ = folder_.file("log");
  int fd_ = open(path_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
};

TEST_F(LogForwarderTest, RecordsOfAShardComeUnderTheirLevel) {
  EXPECT_THAT(
      after("shard-0",
            supervise::Stream::kStdout,
            R"({"timestamp":"t","level":"WARN","target":"s","message":"late","ms":3,"of":"x"})"),
      AllOf(HasSubstr("WARN"),
            HasSubstr("late ms=3 of=x"),
            HasSubstr("from=shard-0"),
            Not(HasSubstr("target="))));
}

TEST_F(LogForwarderTest, LinesThatAreNoRecordAreKept) {
  EXPECT_THAT(after("shard-0", supervise::Stream::kStdout, "hello {"),
              AllOf(HasSubstr("INFO"), HasSubstr("hello {")));
}

TEST_F(LogForwarderTest, LinesOfTheRouterAreCopied) {
  EXPECT_EQ(after("router", supervise::Stream::kStdout, "as it is"), "as it is\n");
}

TEST_F(LogForwarderTest, ErrorsAreWarnings) {
  EXPECT_THAT(after("router", supervise::Stream::kStderr, "oh"),
              AllOf(HasSubstr("WARN"), HasSubstr("oh")));
}

TEST(LogForwarder, TheTwoLinesOfAFailedStartAreKept) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "launcher", .file_descriptor = -1});
  LogForwarder forwarder(log);
  EXPECT_FALSE(forwarder.last_failure());
  forwarder.on_line("shard-0", supervise::Stream::kStderr, "Error: ShardCannotStart(\"no room\")");
  forwarder.on_line("router", supervise::Stream::kStderr, "something else");
  forwarder.on_line("shard-0", supervise::Stream::kStderr, "Free memory.");
  forwarder.on_line("shard-0", supervise::Stream::kStderr, "and more");
  ASSERT_TRUE(forwarder.last_failure());
  EXPECT_EQ(forwarder.last_failure()->cause, "no room");
  EXPECT_EQ(forwarder.last_failure()->cure, "Free memory.");
}

supervise::RunResult ended(const char* service, int code) {
  supervise::RunResult result;
  result.outcome = supervise::Outcome::kStartFailed;
  result.service = service;
  result.exit.code = code;
  return result;
}

TEST(FailureOf, WhatAChildSaidIsWhatTheLauncherSays) {
  const StartFailure said{"Tokenizer", "no file", "Check it.", kExitModel};
  const StartFailure failure = failure_of(ended("router", kExitModel), said);
  EXPECT_EQ(failure.variant, "WebserverFailed");
  EXPECT_EQ(failure.cause, "no file");
  EXPECT_EQ(failure.cure, "Check it.");
  EXPECT_EQ(failure.exit_code, kExitModel);
  const StartFailure bad_option{"ArgumentValidation", "bad", "Change it.", kExitUsage};
  EXPECT_EQ(failure_of(ended("router", kExitUsage), bad_option).variant, "ArgumentValidation");
}

TEST(FailureOf, AChildThatSaidNothing) {
  const StartFailure failure = failure_of(ended("shard-0", 9), std::nullopt);
  EXPECT_EQ(failure.variant, "ShardCannotStart");
  EXPECT_EQ(failure.cause, "shard-0 ended with exit status 9");
  EXPECT_EQ(failure.cure, "Look at the log lines above.");
  EXPECT_EQ(failure.exit_code, kExitFailure);
}

TEST(FailureOf, GivingUpHasACodeOfItsOwn) {
  supervise::RunResult result = ended("shard-0", 1);
  result.outcome = supervise::Outcome::kGaveUp;
  EXPECT_EQ(failure_of(result, std::nullopt).exit_code, kExitGaveUp);
  EXPECT_EQ(failure_of(result, std::nullopt).variant, "ShardFailed");
}

TEST(FailureOf, AProgramThatIsMissing) {
  supervise::RunResult result = ended("router", 0);
  result.status = Status(Code::kNotFound, "no such program");
  const StartFailure failure = failure_of(result, std::nullopt);
  EXPECT_EQ(failure.variant, "WebserverCannotStart");
  EXPECT_EQ(failure.cause, "no such program");
  EXPECT_EQ(failure.cure, "Install all binaries into one folder.");
}

json::Value parsed(const char* text) {
  return json::parse(text).value();
}

TEST(StartupBlock, ShowsWhatIsServedAndHowToTryIt) {
  const json::Value shard = parsed(
      R"({"model_type":"llama","dtype":"bfloat16","kernel_set":"avx2","threads":4,"weight_bytes":3221225472,)"
      R"("kv_bytes":1073741824,"kv_tokens":65536,"workspace_bytes":1536,"reserve_bytes":0,)"
      R"("packed":"3.0 GiB read from /w/a.weights in 0.51 s","huge_page_bytes":2147483648,"weights":[{"part":"layers","format":"int8","bytes":1073741824},)"
      R"({"part":"layers","format":"float32","bytes":2048},{"part":"head","format":"bfloat16","bytes":1572864}]})");
  const json::Value router = parsed(
      R"({"url":"http://127.0.0.1:3000","port":3000,"max_input_tokens":1023,"max_total_tokens":2048,)"
      R"("max_concurrent_requests":128,"connections_max":10000,"open_files_max":20000,"api_key":false,"chat":true})");
  const std::string block = startup_block("demo", 1, shard, router);
  EXPECT_THAT(
      block,
      AllOf(HasSubstr("  model     demo (llama)\n"),
            HasSubstr("  compute   bfloat16 on avx2, 4 threads\n"),
            HasSubstr("  weights   layers int8 1.0 GiB, float32 2.0 KiB; head bfloat16 1.5 MiB\n"),
            HasSubstr("  packed    3.0 GiB read from /w/a.weights in 0.51 s\n"),
            HasSubstr("3.0 GiB weights + 1.0 GiB KV cache (65,536 tokens) + 1.5 KiB buffers, 0 B "
                      "kept free\n"),
            HasSubstr("  pages     2.0 GiB in pages of 2 MiB so far;"),
            HasSubstr("1,023 prompt tokens, 2,048 tokens in all, 128 requests at a time, 10,000 "
                      "connections in 20,000 open files\n"),
            HasSubstr("http://127.0.0.1:3000 (no API key: whoever reaches this port can use it)"),
            HasSubstr("/v1/chat/completions -H"),
            Not(HasSubstr("Authorization"))));
}

TEST(StartupBlock, SaysThatReplicasShareTheirWeights) {
  const json::Value shard = parsed(
      R"({"weight_bytes":1073741824,"shared_weight_bytes":3221225472,"weight_sharers":3,"kv_bytes":0})");
  const std::string block = startup_block("demo", 2, shard, parsed("{}"));
  EXPECT_THAT(block,
              HasSubstr("  memory    1.0 GiB weights (a part of 3.0 GiB shared by 3 replicas) + "));
}

TEST(StartupBlock, WithAKeyAndWithoutAChatTemplate) {
  const std::string block =
      startup_block("m",
                    2,
                    parsed(R"({"draft_bytes":2048})"),
                    parsed(R"({"url":"http://h:1","api_key":true,"chat":false})"));
  EXPECT_THAT(block,
              AllOf(HasSubstr("m (?)"),
                    HasSubstr("buffers + 2.0 KiB for drafts, "),
                    Not(HasSubstr("  weights")),
                    Not(HasSubstr("  packed")),
                    HasSubstr("  pages     none of 2 MiB: /sys/kernel/mm/"),
                    HasSubstr("http://h:1 (API key required)"),
                    HasSubstr("curl http://h:1/generate -H \"Authorization: Bearer $API_KEY\"")));
}

TEST(GivenOptions, AreThoseThatWereSetWithoutKeys) {
  const char* argv[] = {"launcher",
                        "--model-id",
                        "demo",
                        "--json-output",
                        "--api-key=secret",
                        "--memory-bytes-max=4GiB"};
  const auto parsed = options::parse(
      options::Binary::kLauncher, 6, argv, {{"LOG_LEVEL", "debug"}, {"MAX_BEST_OF", "3"}});
  ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.output;
  EXPECT_EQ(given_options(parsed.values),
            "--model-id=demo --max-best-of=3 --memory-bytes-max=4294967296 --api-key=... "
            "--json-output=true "
            "LOG_LEVEL=debug");
}

TEST(SecondsText, HasThreePlaces) {
  EXPECT_EQ(seconds_text(std::chrono::milliseconds(1234)), "1.234s");
  EXPECT_EQ(seconds_text(std::chrono::milliseconds(60'050)), "60.050s");
}

}  // namespace
}  // namespace coxswain::serve
