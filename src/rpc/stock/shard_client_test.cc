// The batch manager over generate.v3: an Engine that drives a shard as a stock one gives every
// request what it gets alone, and says clearly what such a shard cannot do.

#include "rpc/stock/shard_client.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <proto/generate_v3.pb.h>

#include "rpc/stock/messages.h"
#include "rpc/stock/request.h"
#include "rpc/testing/engine_over_shard.h"

namespace coxswain::rpc {
namespace {

namespace v3 = ::generate::v3;
using testing::FakeCodec;
using testing::FakeRunner;
using testing::kBeginToken;
using testing::Recorder;

const RunnerInfo kShard{.block_tokens = 4};

std::vector<TokenId> ids_of(const std::string& text) {
  return *FakeCodec().encode(text, false);
}

class StockClient : public testing::EngineOverShard {
 protected:
  void SetUp() override { start({.prefill_tokens_max = 64, .prefix_caching = false}); }

  std::shared_ptr<StepRunner> connect() override {
    StockClientOptions options;
    options.limits.prefill_tokens_max = 64;
    options.vocab_size = testing::kFakeVocabulary;
    return require(StockShardClient::connect(socket(), options, codec_));
  }

  batch::GenerationRequest request_of(const std::string& text, std::uint32_t max_new) {
    batch::GenerationRequest request;
    request.id = RequestId{++n_requests_};
    request.prompt = ids_of(text);
    request.stopping.max_new_tokens = max_new;
    return request;
  }

  batch::GenerationRequest any_request() override {
    std::string text;
    for (std::uint32_t i = pick(1, 40); i > 0; --i) text += static_cast<char>(pick('a', 'z'));
    return request_of(text, pick(1, 60));
  }
};

TEST_F(StockClient, TellsWhatTheWarmUpFound) {
  const RunnerInfo info = connect()->info();
  EXPECT_EQ(info.engine_version, "");
  EXPECT_EQ(info.block_tokens, 4U);
  EXPECT_EQ(info.kv_groups.at(0).n_blocks, 64U);
  EXPECT_EQ(info.max_total_tokens, 200U);
  EXPECT_EQ(info.max_input_tokens, 199U);
  EXPECT_FALSE(info.capabilities.takes_ids || info.capabilities.look_ahead ||
               info.capabilities.selects_rows || info.capabilities.grows_blocks ||
               info.capabilities.plans_chunks);
}

TEST_F(StockClient, EveryRequestGetsWhatItGetsAlone) {
  for (const auto& [request, sink] : submit_any(120)) {
    const Status status = sink->wait();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sink->ids(), expected_output(request).tokens);
    ASSERT_TRUE(sink->finish());
    EXPECT_EQ(sink->finish()->reason, FinishReason::kLength);
    EXPECT_EQ(sink->finish()->generated_text, expected_output(request).text);
  }
  while (engine_->stats().blocks_leased != 0) std::this_thread::yield();
  runner_.wait_for_live(0);
}

// One sequence of a prompt with its blocks.
StepPlan plan_of(const RunnerInfo& info, std::uint64_t step) {
  SequenceSpec spec{.id = SequenceId{1}, .prompt = ids_of("abc")};
  spec.stopping.max_new_tokens = 2;
  Row row{.sequence = spec.id, .n_tokens = 3, .emit = Emit::kSample};
  row.table_changes = {{.kv_group = 0, .first_index = 0, .blocks = {1}}};
  return {.step = step, .epoch = info.epoch, .new_sequences = {spec}, .rows = {row}};
}

TEST_F(StockClient, AWaitEndsAtItsTimeAndTheTicketStays) {
  engine_.reset();
  const auto client = connect();
  runner_.hold();
  const auto ticket = client->submit(plan_of(client->info(), 1));
  ASSERT_TRUE(ticket.ok());
  for (int i = 0; i < 3; ++i) {
    const TimePoint until = Clock::now() + std::chrono::milliseconds(5);
    EXPECT_EQ(client->wait(*ticket, until).status(), not_yet(*ticket));
    EXPECT_GE(Clock::now(), until);
  }
  EXPECT_TRUE(client->healthy().ok());
  EXPECT_FALSE(client->submit(plan_of(client->info(), 2)).ok());
  runner_.release();
  const auto result = client->wait(*ticket);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->step, 1U);
  EXPECT_EQ(result->sequences.at(0).tokens.size(), 1U);
}

TEST_F(StockClient, AnAdapterKnownByItsContentIsRefused) {
  engine_.reset();
  const auto client = connect();
  const std::size_t n_submitted = runner_.n_submitted();  // by the warm-up
  StepPlan plan = plan_of(client->info(), 1);
  plan.new_sequences[0].adapter_digest = "5f3a";
  const auto ticket = client->submit(plan);
  const Status status =
      ticket.ok() ? client->wait(*ticket)->sequences.at(0).status : ticket.status();
  EXPECT_EQ(status.message(), "a stock shard knows adapters by name, not by content");
  EXPECT_EQ(runner_.n_submitted(), n_submitted);
}

// Whoever gives the client up does not wait for the step.
TEST_F(StockClient, AStepThatHangsHoldsNobodyUp) {
  engine_.reset();
  auto client = connect();
  runner_.hold();
  const auto ticket = client->submit(plan_of(client->info(), 1));
  ASSERT_TRUE(ticket.ok());
  EXPECT_EQ(client->wait(*ticket, Clock::now()).status(), not_yet(*ticket));
  client.reset();
  runner_.release();
}

TEST_F(StockClient, LogProbabilitiesAndAlternativesArrive) {
  batch::GenerationRequest request = request_of("abc", 2);
  request.prompt_logprobs = true;
  request.sampling.n_top_tokens = 2;
  const auto expected = expected_output(request);
  const auto sink = submit(request);
  ASSERT_TRUE(sink->wait().ok());
  ASSERT_EQ(sink->prompt().size(), 3U);
  EXPECT_EQ(sink->prompt()[2].id, request.prompt[2]);
  EXPECT_EQ(sink->prompt()[2].logprob, expected.prompt_logprobs[2]);
  ASSERT_EQ(sink->tokens().size(), 2U);
  EXPECT_EQ(sink->tokens()[0].logprob, expected.logprobs[0]);
  ASSERT_EQ(sink->tokens()[1].alternatives.size(), 2U);
  EXPECT_EQ(sink->tokens()[1].alternatives[1].text, "b");
}

TEST_F(StockClient, WhoLeavesIsFilteredOutAndTheOthersGoOn) {
  runner_.hold();
  const batch::GenerationRequest stays = request_of("stays", 60);
  const batch::GenerationRequest leaves = request_of("leaves", 60);
  const auto stays_sink = submit(stays);
  const auto leaves_sink = submit(leaves);
  runner_.release();
  leaves_sink->wait_tokens(1);
  engine_->cancel(leaves.id);
  EXPECT_TRUE(leaves_sink->wait().code() == Code::kCancelled || leaves_sink->wait().ok());
  EXPECT_TRUE(stays_sink->wait().ok());
  EXPECT_EQ(stays_sink->ids(), expected_output(stays).tokens);
  runner_.wait_for_live(0);
}

TEST_F(StockClient, AWatermarkTravelsAndOtherStepsAreRefusedByName) {
  SequenceSpec spec{.prompt = ids_of("marked"), .stopping = {.max_new_tokens = 3}};
  spec.sampling.watermark = true;
  const std::vector<BlockId> blocks = {1, 2};
  const auto wired = [&](v3::Request& to) {
    return to_stock_request(spec, blocks, kShard, FakeCodec(), to);
  };
  v3::Request request;
  ASSERT_TRUE(wired(request).ok());
  EXPECT_TRUE(request.parameters().watermark());
  grammar::Compiler grammars;
  const auto read =
      read_stock_request(request, FakeCodec(), runner_.info(), StockUse::kGenerate, grammars);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->spec.sampling, spec.sampling);
  const std::pair<std::string, void (*)(SamplingParams&)> steps[] = {
      {"allowed_token_ids", [](SamplingParams& p) { p.allowed_tokens = {4}; }},
      {"epsilon_cutoff", [](SamplingParams& p) { p.epsilon_cutoff = 0.1F; }},
      {"eta_cutoff", [](SamplingParams& p) { p.eta_cutoff = 0.1F; }},
      {"top_n_sigma", [](SamplingParams& p) { p.top_n_sigma = 1.0F; }},
      {"dynatemp_range", [](SamplingParams& p) { p.dynatemp_range = 0.5F; }},
      {"xtc_probability", [](SamplingParams& p) { p.xtc_probability = 0.5F; }},
      {"dry_multiplier", [](SamplingParams& p) { p.dry_multiplier = 0.5F; }},
      {"samplers", [](SamplingParams& p) { p.samplers = {SamplerStep::kTopK}; }}};
  for (const auto& [field, set] : steps) {
    spec.sampling = {};
    set(spec.sampling);
    const Status refused = wired(request);
    EXPECT_EQ(refused.field(), field);
    EXPECT_EQ(refused.message(), "`" + field + "` is not supported by this shard");
  }
}

TEST_F(StockClient, AGrammarTravelsAsAPattern) {
  using grammar::Source;
  const std::string schema =
      R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})";
  const std::pair<Source, std::string> grammars[] = {
      {{.kind = Source::Kind::kRegex, .text = "[ab]{3}c?"}, "[ab]{3}c?"},
      {{.kind = Source::Kind::kChoice, .choices = {"yes", "no"}}, "yes|no"},
      {{.kind = Source::Kind::kJsonSchema, .text = schema, .schema = grammar::kTgiSchema}, ""}};
  for (const auto& [source, pattern] : grammars) {
    SequenceSpec spec{.prompt = ids_of("formed"), .stopping = {.max_new_tokens = 3}};
    const auto compiled = grammar::compile_source(source, grammar::Form::kPattern);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    spec.sampling.grammar = *compiled;
    const std::vector<BlockId> blocks = {1, 2};
    v3::Request request;
    ASSERT_TRUE(to_stock_request(spec, blocks, kShard, FakeCodec(), request).ok());
    EXPECT_EQ(request.parameters().grammar_type(), v3::GRAMMAR_TYPE_REGEX);
    if (!pattern.empty()) {
      EXPECT_EQ(request.parameters().grammar(), pattern);
    }
    grammar::Compiler compiler;
    const auto read =
        read_stock_request(request, FakeCodec(), runner_.info(), StockUse::kGenerate, compiler);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(read->spec.sampling.grammar);
    if (source.kind == Source::Kind::kRegex) {
      EXPECT_EQ(read->spec.sampling.grammar, grammar::compile_source(source).value());
    }
    spec.sampling.grammar = grammar::compile_source(source).value();
    EXPECT_EQ(to_stock_request(spec, blocks, kShard, FakeCodec(), request).message(),
              "`grammar` is not supported by this shard");
  }
}

TEST_F(StockClient, WhatTheProtocolCannotCarryFailsAloneAndByName) {
  batch::GenerationRequest biased = request_of("biased", 5);
  biased.sampling.logit_bias = {{20, 1.0F}};
  batch::GenerationRequest by_hand = request_of("x", 5);
  by_hand.prompt = {kBeginToken, 30, kBeginToken, 31};  // the text "<s>" is read as letters
  batch::GenerationRequest long_one = request_of("long", 5);
  long_one.stopping.min_new_tokens = 2;
  batch::GenerationRequest formed = request_of("formed", 5);
  formed.sampling.grammar.bytes = std::make_shared<const std::string>("any");
  const batch::GenerationRequest plain = request_of("plain", 5);
  runner_.hold();
  const auto fourth = submit(long_one);
  const auto first = submit(biased);
  const auto second = submit(by_hand);
  const auto third = submit(plain);
  const auto fifth = submit(formed);
  runner_.release();
  EXPECT_NE(fifth->wait().message().find("`grammar` is not supported by this shard"),
            std::string::npos)
      << fifth->wait().message();
  EXPECT_NE(first->wait().message().find("`logit_bias` is not supported by this shard"),
            std::string::npos)
      << first->wait().message();
  EXPECT_NE(fourth->wait().message().find("`min_new_tokens` is not supported by this shard"),
            std::string::npos)
      << fourth->wait().message();
  EXPECT_NE(second->wait().message().find("no text stands for the tokens"), std::string::npos);
  EXPECT_TRUE(third->wait().ok());
  EXPECT_EQ(third->ids(), expected_output(plain).tokens);
}

TEST_F(StockClient, AFailedStepFailsItsRequestsAndNoOthers) {
  runner_.fail_sequences_starting_with(ids_of("!")[0]);
  const auto bad = submit(request_of("!bad", 5));
  EXPECT_NE(bad->wait().message().find("told to fail"), std::string::npos) << bad->wait().message();
  const batch::GenerationRequest good = request_of("good", 5);
  const auto sink = submit(good);
  EXPECT_TRUE(sink->wait().ok());
  EXPECT_EQ(sink->ids(), expected_output(good).tokens);
}

TEST_F(StockClient, ADeadShardEndsEveryRequestOnceAndANewOneServes) {
  runner_.hold();
  const std::vector<Submitted> all = submit_any(30);
  replace_shard();
  std::size_t n_failed = 0;
  for (const auto& [request, sink] : all) {
    n_failed += sink->wait().ok() ? 0 : 1;
    EXPECT_TRUE(sink->done());
  }
  EXPECT_GT(n_failed, 0U);
  const batch::GenerationRequest after = any_request();
  const auto sink = submit(after);
  EXPECT_TRUE(sink->wait().ok());
  EXPECT_EQ(sink->ids(), expected_output(after).tokens);
}

// Stock shards that were started with --speculate: some of their steps yield several tokens of a request.
class StockClientThatGuesses : public StockClient {
 protected:
  void SetUp() override {
    batch::testing::FakeRunnerOptions fake = testing::fake_shard_options();
    fake.capabilities.draft_tokens_max = 3;
    guesses_.emplace(fake);
    serve(*guesses_);
    batch::EngineOptions options{.prefill_tokens_max = 64, .prefix_caching = false};
    options.batch_size_max = 12;
    options.check_invariants = true;
    engine_ = batch::Engine::create(connect(), options);
  }
  void TearDown() override {
    StockClient::TearDown();
    for (const std::string& what : guesses_->violations()) ADD_FAILURE() << what;
  }

  std::optional<FakeRunner> guesses_;
};

TEST_F(StockClientThatGuesses, EveryRequestGetsWhatItGetsAlone) {
  EXPECT_EQ(connect()->info().capabilities.draft_tokens_max, 3U);
  batch::DraftCounts drafts;
  std::size_t n_tokens = 0;
  for (auto& [request, sink] : submit_any(80)) {
    const Status status = sink->wait();
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sink->ids(), expected_output(request).tokens);
    ASSERT_TRUE(sink->finish());
    EXPECT_EQ(sink->finish()->generated_text, expected_output(request).text);
    drafts += sink->final_event().drafts;
    n_tokens += sink->ids().size();
  }
  EXPECT_GT(drafts.accepted, n_tokens / 10);
  EXPECT_GT(drafts.computed, drafts.accepted);
  while (engine_->stats().blocks_leased != 0) std::this_thread::yield();
  guesses_->wait_for_live(0);
}

TEST_F(StockClientThatGuesses, TablesHaveRoomForGuesses) {
  const batch::GenerationRequest request = request_of("abcd", 5);  // 8 positions: two blocks
  const auto sink = submit(request);
  while (sink->tokens().empty()) std::this_thread::yield();
  ASSERT_TRUE(sink->wait().ok());
  // The pool has 63 blocks of 4 positions; the guesses beyond the last token need one more.
  batch::GenerationRequest whole = request_of(std::string(100, 'x'), 63 * 4 - 100 + 1);
  const Status status = engine_->submit(whole, std::make_shared<Recorder>());
  EXPECT_EQ(status.field(), batch::kMaxNewTokensField) << status.message();
}

TEST_F(StockClientThatGuesses, EachTokenHasItsAlternatives) {
  batch::GenerationRequest request = request_of("abc", 20);
  request.sampling.n_top_tokens = 2;
  const auto sink = submit(request);
  ASSERT_TRUE(sink->wait().ok());
  ASSERT_EQ(sink->tokens().size(), 20U);
  for (const OutputToken& token : sink->tokens()) EXPECT_EQ(token.alternatives.size(), 2U);
  EXPECT_GT(sink->final_event().drafts.accepted, 0U);
}

TEST(StockMessages, AShardThatGuessesHasSlotsForIt) {
  SequenceSpec spec{.id = SequenceId{9}, .prompt = {107, 114}};
  spec.stopping.max_new_tokens = 3;
  RunnerInfo shard = kShard;
  shard.capabilities.draft_tokens_max = 4;
  v3::Request message;
  ASSERT_TRUE(to_stock_request(spec, std::vector<BlockId>{1, 2}, shard, FakeCodec(), message).ok());
  EXPECT_EQ(message.slots_size(), 2 + 3 + 4 - 1);
  EXPECT_FALSE(to_stock_request(spec, std::vector<BlockId>{1}, shard, FakeCodec(), message).ok());
}

TEST(StockMessages, AShardReadsWhatWasMeant) {
  SequenceSpec spec{.id = SequenceId{9}, .prompt = {kBeginToken, 107, 114}};
  spec.sampling = {.do_sample = true,
                   .temperature = 0.7F,
                   .top_k = 5,
                   .top_p = 0.9F,
                   .typical_p = 0.8F,
                   .repetition_penalty = 1.2F,
                   .relative_frequency_penalty = 0.3F,
                   .seed = 77,
                   .n_top_tokens = 2};
  spec.stopping = {.max_new_tokens = 4, .stop_sequences = {"a", "bc"}, .ignore_eos = true};
  spec.prompt_logprobs = true;
  spec.rope_length = 7;
  const std::vector<BlockId> blocks{5, 9};
  v3::Request message;
  ASSERT_TRUE(to_stock_request(spec, blocks, kShard, FakeCodec(), message).ok());
  EXPECT_EQ(message.slots_size(), 6);
  EXPECT_EQ(message.slots(4), 36U);
  grammar::Compiler grammars;
  const auto read = read_stock_request(message,
                                       FakeCodec(),
                                       FakeRunner(testing::fake_shard_options()).info(),
                                       StockUse::kGenerate,
                                       grammars);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->request_id, 9U);
  EXPECT_EQ(read->blocks, blocks);
  SequenceSpec expected = spec;
  expected.id = read->spec.id;
  EXPECT_EQ(read->spec, expected);
}

TEST(StockMessages, GreedyStaysGreedy) {
  SequenceSpec spec{.id = SequenceId{9}, .prompt = {107}};
  spec.sampling.temperature = 0.5F;  // a shard would sample because of it
  spec.stopping.max_new_tokens = 1;
  v3::Request message;
  ASSERT_TRUE(to_stock_request(spec, std::vector<BlockId>{1}, kShard, FakeCodec(), message).ok());
  EXPECT_EQ(message.parameters().temperature(), 1.0F);
  EXPECT_FALSE(message.parameters().do_sample());
}

TEST(StockMessages, TheStopStringThatEndsTheTextIsFound) {
  SequenceSpec spec{.id = SequenceId{3}, .prompt = {107}};
  spec.stopping = {.max_new_tokens = 9, .stop_sequences = {"c", "bc", "x"}};
  v3::Generation from;
  from.set_request_id(3);
  from.mutable_tokens()->add_ids(12);
  from.mutable_tokens()->add_logprobs(-1.0F);
  from.mutable_tokens()->add_texts("c");
  from.mutable_generated_text()->set_text("abc");
  from.mutable_generated_text()->set_finish_reason(v3::FINISH_REASON_STOP_SEQUENCE);
  const auto read = from_stock(from, spec);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->finish->stop_text_begin, 1U);
  // A stock shard looks at the length first, whatever was asked for.
  from.mutable_generated_text()->set_finish_reason(v3::FINISH_REASON_LENGTH);
  EXPECT_EQ(from_stock(from, spec)->finish->reason, FinishReason::kLength);
  EXPECT_EQ(from_stock(from, spec)->finish->stop_text_begin, 3U);
  spec.stopping.order = FinishOrder::kStopFirst;
  EXPECT_EQ(from_stock(from, spec)->finish->reason, FinishReason::kStopSequence);
  EXPECT_EQ(from_stock(from, spec)->finish->stop_text_begin, 1U);
  from.mutable_tokens()->add_ids(13);
  EXPECT_EQ(from_stock(from, spec).status().code(), Code::kInternal);
}

TEST(StockMessages, WarmUpFillsTheBudget) {
  v3::WarmupRequest message;
  to_warmup_request({.prefill_tokens_max = 25, .input_tokens_max = 10, .total_tokens_max = 16},
                    message);
  ASSERT_EQ(message.batch().requests_size(), 3);
  EXPECT_EQ(message.batch().requests(2).truncate(), 5U);
  EXPECT_EQ(message.batch().requests(0).stopping_parameters().max_new_tokens(), 6U);
  EXPECT_EQ(message.max_input_tokens(), 10U);
}

}  // namespace
}  // namespace coxswain::rpc
