// The Engine stream end to end: ShardedClient and ShardService over real Unix sockets, a FakeRunner behind them.

#include "rpc/sharded_client.h"

#include <future>
#include <thread>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "rpc/shard_service.h"
#include "rpc/testing/fake_codec.h"
#include "rpc/testing/served_shard.h"

namespace coxswain::rpc {
namespace {

using testing::expected_output;
using testing::fake_shard_options;
using testing::FakeRunner;

SequenceSpec spec_of(std::uint64_t id,
                     std::vector<TokenId> prompt,
                     std::uint32_t max_new_tokens = 100) {
  SequenceSpec spec;
  spec.id = SequenceId{id};
  spec.prompt = std::move(prompt);
  spec.stopping.max_new_tokens = max_new_tokens;
  return spec;
}

// The whole prompt in one row, blocks first..first+n.
Row prefill_row(const SequenceSpec& spec, BlockId first_block, std::uint32_t n_blocks) {
  Row row;
  row.sequence = spec.id;
  row.n_tokens = static_cast<std::uint32_t>(spec.prompt.size());
  row.tokens = spec.prompt;
  row.emit = Emit::kSample;
  BlockTableChange change;
  for (std::uint32_t i = 0; i < n_blocks; ++i) change.blocks.push_back(first_block + i);
  row.table_changes.push_back(change);
  return row;
}

Row decode_row(std::uint64_t id, std::uint32_t position) {
  Row row;
  row.sequence = SequenceId{id};
  row.first_position = position;
  row.n_tokens = 1;
  row.continues = true;
  row.emit = Emit::kSample;
  return row;
}

StepPlan plan_of(std::uint64_t step, std::vector<SequenceSpec> specs, std::vector<Row> rows) {
  StepPlan plan;
  plan.step = step;
  plan.epoch = 77;
  plan.new_sequences = std::move(specs);
  plan.rows = std::move(rows);
  return plan;
}

class EngineStream : public testing::ServedShard {
 protected:
  void SetUp() override { serve(runner_); }

  std::unique_ptr<ShardedClient> connect(const ClientOptions& options = {}) {
    auto client = ShardedClient::connect(socket(), options);
    EXPECT_TRUE(client.ok()) << client.status().message();
    return client.ok() ? std::move(client).value() : nullptr;
  }
};

TEST_F(EngineStream, InfoArrivesWhole) {
  auto client = connect();
  ASSERT_TRUE(client);
  const RunnerInfo info = client->info();
  EXPECT_EQ(info.epoch, 77U);
  EXPECT_EQ(info.engine_version, "fake-1");
  EXPECT_EQ(info.kv_groups, runner_.info().kv_groups);
  EXPECT_TRUE(info.capabilities.look_ahead);
  EXPECT_TRUE(client->healthy().ok());
}

TEST_F(EngineStream, ASequenceIsGeneratedWithLookAhead) {
  auto client = connect();
  ASSERT_TRUE(client);
  const SequenceSpec spec = spec_of(1, {20, 30, 40, 50, 60});
  const std::vector<TokenId> expected = expected_output(spec.prompt, 11).tokens;
  std::uint32_t position = 5;
  auto ticket = client->submit(plan_of(1, {spec}, {prefill_row(spec, 3, 5)}));
  ASSERT_TRUE(ticket.ok());
  for (std::uint64_t step = 2; step <= 12; ++step) {
    auto next = client->submit(plan_of(step, {}, {decode_row(1, position++)}));
    ASSERT_TRUE(next.ok()) << next.status().message();
    auto result = client->wait(*ticket);
    ASSERT_TRUE(result.ok()) << result.status().message();
    ASSERT_EQ(result->sequences.size(), 1U);
    EXPECT_TRUE(result->sequences[0].status.ok()) << result->sequences[0].status.message();
    ASSERT_EQ(result->sequences[0].tokens.size(), 1U);
    EXPECT_EQ(result->sequences[0].tokens[0].id, expected[step - 2]);
    EXPECT_EQ(result->epoch, 77U);
    EXPECT_EQ(result->timings.forward.count(), 3);
    ticket = next;
  }
  EXPECT_TRUE(client->wait(*ticket).ok());
}

TEST_F(EngineStream, TwoPlansAreInFlightWhileTheRunnerIsBusy) {
  auto client = connect();
  ASSERT_TRUE(client);
  runner_.hold();
  const SequenceSpec spec = spec_of(1, {20, 30});
  auto first = client->submit(plan_of(1, {spec}, {prefill_row(spec, 0, 2)}));
  auto second = client->submit(plan_of(2, {}, {decode_row(1, 2)}));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(client->submit(plan_of(3, {}, {})).ok());
  runner_.wait_for_submitted(2);        // it has the next one when a step ends
  EXPECT_TRUE(client->healthy().ok());  // not behind the step
  runner_.release();
  EXPECT_TRUE(client->wait(*first).ok());
  EXPECT_TRUE(client->wait(*second).ok());
}

TEST_F(EngineStream, TicketsAreWaitedForInOrder) {
  auto client = connect();
  ASSERT_TRUE(client);
  auto first = client->submit(plan_of(1, {}, {}));
  auto second = client->submit(plan_of(2, {}, {}));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(client->wait(*second).status().code(), Code::kInternal);
  EXPECT_TRUE(client->wait(*first).ok());
  EXPECT_TRUE(client->wait(*second).ok());
}

TEST_F(EngineStream, DroppedSequencesAreForgotten) {
  auto client = connect();
  ASSERT_TRUE(client);
  const SequenceSpec one = spec_of(1, {20});
  const SequenceSpec two = spec_of(2, {30});
  ASSERT_TRUE(
      client->run(plan_of(1, {one, two}, {prefill_row(one, 0, 1), prefill_row(two, 1, 1)})).ok());
  EXPECT_EQ(runner_.live().size(), 2U);
  StepPlan drop = plan_of(2, {}, {});
  drop.dropped = {SequenceId{1}};
  ASSERT_TRUE(client->run(std::move(drop)).ok());
  EXPECT_EQ(runner_.live(), (std::set<SequenceId>{SequenceId{2}}));
}

TEST_F(EngineStream, OneFailedSequenceLeavesTheOthers) {
  auto client = connect();
  ASSERT_TRUE(client);
  runner_.fail_sequences_starting_with(30);
  const SequenceSpec one = spec_of(1, {20});
  const SequenceSpec two = spec_of(2, {30});
  auto result =
      client->run(plan_of(1, {one, two}, {prefill_row(one, 0, 1), prefill_row(two, 1, 1)}));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->sequences[0].status.ok());
  EXPECT_EQ(result->sequences[1].status,
            Status(Code::kInternal, ErrorKind::kGeneration, "told to fail"));
}

TEST_F(EngineStream, AFailedStepCarriesCodeKindAndText) {
  auto client = connect();
  ASSERT_TRUE(client);
  const Status failure(Code::kDataLoss, ErrorKind::kGeneration, "the bytes are gone", "kv");
  runner_.fail_next(failure);
  EXPECT_EQ(client->run(plan_of(1, {}, {})).status(), failure);
  EXPECT_TRUE(client->run(plan_of(2, {}, {})).ok());
}

TEST_F(EngineStream, AWaitEndsAtItsTimeAndTheTicketStays) {
  auto client = connect({.heartbeat_limit = std::chrono::milliseconds(20)});
  ASSERT_TRUE(client);
  runner_.hold();
  const auto ticket = client->submit(plan_of(1, {}, {}));
  ASSERT_TRUE(ticket.ok());
  const TimePoint begin = Clock::now();
  for (int i = 0; i < 10; ++i) {  // health is asked for between
    const auto result = client->wait(*ticket, Clock::now() + std::chrono::milliseconds(10));
    EXPECT_EQ(result.status().code(), Code::kDeadlineExceeded);
  }
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(100));
  EXPECT_EQ(client->wait(*ticket, begin).status().code(), Code::kDeadlineExceeded);
  runner_.release();
  const auto result = client->wait(*ticket);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->step, 1U);
}

// However short the waits are, a shard that is ill is given up at its time.
TEST_F(EngineStream, ShortWaitsGiveAnIllShardUpToo) {
  auto client = connect({.heartbeat_limit = std::chrono::milliseconds(30)});
  ASSERT_TRUE(client);
  runner_.hold();
  const auto ticket = client->submit(plan_of(1, {}, {}));
  ASSERT_TRUE(ticket.ok());
  runner_.set_health(internal_error("ill"));
  Status status(Code::kDeadlineExceeded, "");
  for (int i = 0; i < 1000 && status.code() == Code::kDeadlineExceeded; ++i)
    status = client->wait(*ticket, Clock::now() + std::chrono::milliseconds(5)).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  runner_.release();
}

// As of a process that stands still: whoever waits until a certain time is told then, not when Health gives up.
TEST_F(EngineStream, AHealthCallThatHangsDelaysNoWait) {
  auto client = connect(
      {.call_timeout = std::chrono::seconds(20), .heartbeat_limit = std::chrono::milliseconds(20)});
  ASSERT_TRUE(client);
  std::promise<void> asked;
  std::promise<void> goes_on;
  runner_.on_health = [&, first = true]() mutable {
    if (std::exchange(first, false)) {
      asked.set_value();
      goes_on.get_future().wait();
    }
  };
  runner_.hold();
  const auto ticket = client->submit(plan_of(1, {}, {}));
  ASSERT_TRUE(ticket.ok());
  auto is_asked = asked.get_future();
  while (is_asked.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const auto result = client->wait(*ticket, Clock::now() + std::chrono::milliseconds(5));
    ASSERT_EQ(result.status().code(), Code::kDeadlineExceeded);
  }
  const auto result = client->wait(*ticket, Clock::now() + std::chrono::milliseconds(5));
  EXPECT_EQ(result.status().code(), Code::kDeadlineExceeded);
  runner_.release();
  EXPECT_TRUE(client->wait(*ticket).ok());  // whether Health has answered or not
  goes_on.set_value();
  EXPECT_TRUE(client->run(plan_of(2, {}, {})).ok());
}

TEST_F(EngineStream, ARunnerWithoutAttachmentsSaysSo) {
  auto client = connect();
  ASSERT_TRUE(client);
  EXPECT_EQ(client->attach({.id = 1, .kind = AttachmentKind::kMedia, .bytes = "abc"}).message(),
            "this runner takes no attachments of kind media");
  EXPECT_EQ(client->take(1).status().code(), Code::kNotFound);
  StepPlan plan = plan_of(1, {}, {});
  plan.exports = {{.attachment = 1, .blocks = {{1}}}};
  EXPECT_EQ(client->run(plan).status().message(), "plan: `exports` cannot be done by this runner");
  plan = plan_of(2, {}, {});
  plan.edits = {{.sequence = SequenceId{1}, .source = SequenceId{1}}};
  EXPECT_EQ(client->run(plan).status().message(), "plan: `edits` cannot be done by this runner");
}

TEST_F(EngineStream, PlansOutsideTheModelNeverReachTheRunner) {
  auto client = connect();
  ASSERT_TRUE(client);
  std::uint64_t step = 0;
  const auto refused = [&](StepPlan plan) {
    plan.step = ++step;
    auto result = client->run(std::move(plan));
    return result.ok() ? std::string() : result.status().message();
  };
  SequenceSpec spec = spec_of(1, {});
  EXPECT_EQ(refused(plan_of(0, {spec}, {})), "plan: a new sequence has no prompt");
  spec = spec_of(1, {20});
  spec.outputs.context_logits = true;
  EXPECT_EQ(refused(plan_of(0, {spec}, {})), "plan: `outputs` have no place in a result");
  spec = spec_of(1, {20});
  spec.sampling.logits_processor = "mine";
  EXPECT_EQ(refused(plan_of(0, {spec}, {})),
            "plan: `logits_processor` names `mine`, which is in another process");
  spec = spec_of(1, {20});
  EXPECT_EQ(refused(plan_of(0, {spec}, {prefill_row(spec, 64, 1)})),
            "plan: block 64 is not below 64");
  Row row = prefill_row(spec, 0, 1);
  row.table_changes[0].kv_group = 1;
  EXPECT_EQ(refused(plan_of(0, {spec}, {row})), "plan: KV group 1 is not below 1");
  row = prefill_row(spec, 0, 1);
  row.table_changes[0].first_index = 64;
  EXPECT_EQ(refused(plan_of(0, {spec}, {row})), "plan: block-table index 64 is not below 64");
  row = prefill_row(spec, 0, 1);
  row.n_tokens = 2;
  EXPECT_EQ(refused(plan_of(0, {spec}, {row})), "plan: a row of 2 positions has 1 tokens");
  row.n_tokens = 0;
  EXPECT_EQ(refused(plan_of(0, {spec}, {row})), "plan: a row has no tokens");
  row = prefill_row(spec, 0, 1);
  row.tokens = {300};
  EXPECT_EQ(refused(plan_of(0, {spec}, {row})), "plan: a row has the token id 300 of 300");
  row = decode_row(1, 200);
  EXPECT_EQ(refused(plan_of(0, {}, {row})), "plan: position 200 is not below 200");
  StepPlan plan = plan_of(0, {}, {});
  plan.moves = {{.kv_group = 0, .from = {.id = 0}, .to = {.id = 64}}};
  EXPECT_EQ(refused(plan), "plan: block 64 is not below 64");
  plan = plan_of(0, {}, {});
  plan.layers = {.begin = 0, .end = 3};
  EXPECT_EQ(refused(plan), "plan: the layers [0, 3) are not of 2");
  plan = plan_of(0, {}, {});
  plan.epoch = 78;
  EXPECT_EQ(refused(plan), "epoch 78 is over, this replica is in 77");
  EXPECT_EQ(runner_.n_submitted(), 0U);
  EXPECT_TRUE(client->run(plan_of(++step, {}, {})).ok());
}

TEST_F(EngineStream, AnOverlargePlanIsRefusedWithoutLosingTheStream) {
  serve(runner_, {.message_bytes_max = 4096});
  auto client = connect({.message_bytes_max = 4096});
  ASSERT_TRUE(client);
  const SequenceSpec big = spec_of(1, std::vector<TokenId>(5000, 20));
  EXPECT_EQ(client->submit(plan_of(1, {big}, {})).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(client->run(plan_of(2, {}, {})).ok());
}

TEST_F(EngineStream, AnOverlargeResultFailsItsStepOnly) {
  serve(runner_, {.message_bytes_max = 4096});
  auto client = connect({.message_bytes_max = 4096});
  ASSERT_TRUE(client);
  SequenceSpec spec = spec_of(1, {20});
  spec.sampling.n_top_tokens = 1000;
  EXPECT_EQ(client->run(plan_of(1, {spec}, {prefill_row(spec, 0, 1)})).status().code(),
            Code::kResourceExhausted);
  EXPECT_TRUE(client->run(plan_of(2, {}, {})).ok());
}

TEST_F(EngineStream, MessagesAboveFourMebibytesPass) {
  auto client = connect();
  ASSERT_TRUE(client);
  std::vector<SequenceSpec> specs;
  for (std::uint64_t id = 1; id <= 40; ++id)
    specs.push_back(spec_of(id, std::vector<TokenId>(100'000, 299)));
  ASSERT_TRUE(client->run(plan_of(1, std::move(specs), {})).ok());
  EXPECT_EQ(runner_.live().size(), 40U);
}

TEST_F(EngineStream, AStoppedServerIsUnavailable) {
  auto client = connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->run(plan_of(1, {}, {})).ok());
  service_.reset();
  EXPECT_EQ(client->run(plan_of(2, {}, {})).status().code(), Code::kUnavailable);
  EXPECT_EQ(client->run(plan_of(3, {}, {})).status().code(), Code::kUnavailable);
  EXPECT_EQ(client->healthy().code(), Code::kUnavailable);
  EXPECT_EQ(ShardedClient::connect(socket(), {}).status().code(), Code::kUnavailable);
}

TEST_F(EngineStream, AShardThatGoesWhileNobodyWaitsIsTold) {
  std::promise<void> lost;
  auto client = connect({.on_lost = [&] { lost.set_value(); }});
  ASSERT_TRUE(client);
  service_.reset();
  lost.get_future().wait();
  EXPECT_EQ(client->healthy().code(), Code::kUnavailable);
}

TEST_F(EngineStream, AServerThatStopsDuringAStepIsUnavailable) {
  auto client = connect();
  ASSERT_TRUE(client);
  runner_.hold();
  auto ticket = client->submit(plan_of(1, {}, {}));
  ASSERT_TRUE(ticket.ok());
  runner_.wait_for_submitted(1);
  auto stopped = std::async(std::launch::async, [&] { service_.reset(); });
  EXPECT_EQ(client->wait(*ticket).status().code(), Code::kUnavailable);
  runner_.release();
  stopped.get();
}

TEST_F(EngineStream, AnIllRunnerIsNotHealthy) {
  auto client = connect();
  ASSERT_TRUE(client);
  runner_.set_health(internal_error("a thread died"));
  const Status status = client->healthy();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("a thread died"), std::string::npos);
}

// The calls are answered, the thread that computes hangs.
TEST_F(EngineStream, AStepBeyondTheLimitMakesTheShardUnavailableUntilItEnds) {
  serve(runner_, {.step_time_max = std::chrono::milliseconds(1)});
  auto client = connect({.heartbeat_limit = std::chrono::milliseconds(5)});
  ASSERT_TRUE(client);
  runner_.hold();
  const Status status = client->run(plan_of(1, {}, {})).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("a step has run for "), std::string::npos) << status.message();
  EXPECT_EQ(ShardedClient::connect(socket(), {}).status().code(), Code::kUnavailable);
  runner_.release();
  auto next = ShardedClient::connect(socket(), {});
  while (!next.ok()) next = ShardedClient::connect(socket(), {});
  EXPECT_TRUE(next.value()->run(plan_of(2, {}, {})).ok());
}

TEST_F(EngineStream, ADisconnectDropsItsSequences) {
  auto client = connect();
  ASSERT_TRUE(client);
  const SequenceSpec one = spec_of(1, {20});
  const SequenceSpec two = spec_of(2, {30});
  ASSERT_TRUE(
      client->run(plan_of(1, {one, two}, {prefill_row(one, 0, 1), prefill_row(two, 1, 1)})).ok());
  client.reset();
  runner_.wait_for_live(0);
  // The next router may use the same ids.
  client = connect();
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->run(plan_of(1, {one}, {prefill_row(one, 0, 1)})).ok());
}

TEST_F(EngineStream, ADisconnectDropsWhomAFailedStepDidNotDrop) {
  auto client = connect();
  ASSERT_TRUE(client);
  const SequenceSpec one = spec_of(1, {20});
  ASSERT_TRUE(client->run(plan_of(1, {one}, {prefill_row(one, 0, 1)})).ok());
  runner_.fail_next(internal_error("the step broke a rule"));
  StepPlan drop = plan_of(2, {}, {});
  drop.dropped = {SequenceId{1}};
  EXPECT_FALSE(client->run(std::move(drop)).ok());
  EXPECT_EQ(runner_.live().size(), 1U);
  client.reset();
  runner_.wait_for_live(0);
}

TEST_F(EngineStream, ANewerStreamDisplacesTheOlder) {
  auto old_client = connect();
  ASSERT_TRUE(old_client);
  const SequenceSpec one = spec_of(1, {20});
  ASSERT_TRUE(old_client->run(plan_of(1, {one}, {prefill_row(one, 0, 1)})).ok());
  auto new_client = connect();
  ASSERT_TRUE(new_client);
  const SequenceSpec other = spec_of(1, {40});
  auto result = new_client->run(plan_of(1, {other}, {prefill_row(other, 5, 1)}));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->sequences[0].tokens[0].id, expected_output({40}, 1).tokens[0]);
  EXPECT_EQ(old_client->run(plan_of(2, {}, {})).status().code(), Code::kUnavailable);
  EXPECT_EQ(runner_.live().size(), 1U);
}

// What a client is told ahead of the result that wait() then returns.
class Heard final : public EarlyResults {
 public:
  void on_early(StepTicket ticket, std::vector<SequenceResult> first, TimePoint) override {
    steps.push_back(ticket.step);
    rows.insert(rows.end(), first.begin(), first.end());
  }
  std::vector<std::uint64_t> steps;
  std::vector<SequenceResult> rows;
};

// `n` sequences, each with its prompt in one row.
StepPlan plan_of_prompts(std::uint64_t n) {
  StepPlan out = plan_of(1, {}, {});
  for (std::uint64_t id = 1; id <= n; ++id) {
    out.new_sequences.push_back(spec_of(id, {static_cast<TokenId>(20 + id)}));
    out.rows.push_back(prefill_row(out.new_sequences.back(), static_cast<BlockId>(id), 1));
  }
  return out;
}

TEST_F(EngineStream, FirstTokensOfAStepOfManyRowsComeAheadOfItsResult) {
  constexpr std::uint64_t kRows = 20;
  auto client = connect();
  ASSERT_TRUE(client);
  Heard heard;
  client->tell_early(&heard);
  StepPlan plan = plan_of_prompts(kRows);
  plan.rows[3].emit = Emit::kNone;                    // a chunk
  plan.new_sequences[5].stopping.max_new_tokens = 1;  // ends with it
  const auto result = client->run(plan);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->sequences.size(), kRows);  // those among them
  ASSERT_EQ(heard.rows.size(), kRows - 2);
  for (std::size_t i = 0, row = 0; i < heard.rows.size(); ++i, ++row) {
    while (row == 3 || row == 5) ++row;
    EXPECT_TRUE(heard.rows[i] == result->sequences[row]) << "row " << row;
  }
  EXPECT_EQ(heard.steps, std::vector<std::uint64_t>{1});

  // Behind their first tokens nobody waits.
  StepPlan decode = plan_of(2, {}, {});
  for (std::uint64_t id = 1; id <= kRows; ++id) {
    if (id != 4 && id != 6) decode.rows.push_back(decode_row(id, 1));
  }
  ASSERT_TRUE(client->run(decode).ok());
  EXPECT_EQ(heard.steps.size(), 1U);
}

TEST_F(EngineStream, FirstTokensThatAreTooLargeGoTheWayOfTheirResult) {
  serve(runner_, {.message_bytes_max = 4096});
  auto client = connect({.message_bytes_max = 4096});
  ASSERT_TRUE(client);
  Heard heard;
  client->tell_early(&heard);
  StepPlan plan = plan_of_prompts(20);
  for (SequenceSpec& spec : plan.new_sequences) spec.sampling.n_top_tokens = 20;
  plan.new_sequences.front().sampling.n_top_tokens = 1000;
  EXPECT_EQ(client->run(plan).status().message(), "the result of the step is too large to be sent");
  EXPECT_TRUE(heard.steps.empty());
  EXPECT_TRUE(client->run(plan_of(2, {}, {})).ok());  // the stream goes on
}

TEST_F(EngineStream, AResultOfFewRowsIsNotDivided) {
  auto client = connect();
  ASSERT_TRUE(client);
  Heard heard;
  client->tell_early(&heard);
  ASSERT_TRUE(client->run(plan_of_prompts(8)).ok());
  EXPECT_TRUE(heard.steps.empty());
}

TEST_F(EngineStream, FirstTokensComeWithTheResultWhereNobodyAsks) {
  auto client = connect();
  ASSERT_TRUE(client);
  const auto result = client->run(plan_of_prompts(20));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->sequences.size(), 20U);
}

TEST_F(EngineStream, TheSocketIsPrivateAndASecondServerIsRefused) {
  struct stat found {};
  ASSERT_EQ(::stat(socket().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  FakeRunner runner(fake_shard_options());
  ShardServiceOptions options;
  options.socket_path = socket();
  auto second = ShardService::start(runner, *codec_, options, log_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(second.status().message(),
            "another server is running here: it holds " + socket() + ".lock (process " +
                std::to_string(::getpid()) + ")");
  EXPECT_TRUE(connect());  // the first one still serves
}

}  // namespace
}  // namespace coxswain::rpc
