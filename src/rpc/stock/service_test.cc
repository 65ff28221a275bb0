// generate.v3 and v2 as a stock router drives them, over a real socket, a FakeRunner behind the service.

#include "rpc/stock/service.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <proto/generate_v2.grpc.pb.h>
#include <proto/generate_v3.grpc.pb.h>

#include "grammar/compiler.h"
#include "rpc/sharded_client.h"
#include "rpc/stock/request.h"
#include "rpc/testing/stock_router.h"

namespace coxswain::rpc {
namespace {

namespace v2 = ::generate::v2;
namespace v3 = ::generate::v3;
using testing::expected_output;
using testing::expected_text;
using testing::kBlock;
using testing::request_of;
using testing::StockRouter;

TEST_F(StockRouter, StartSequence) {
  {
    grpc::ClientContext context;
    v3::ServiceDiscoveryResponse response;
    ASSERT_TRUE(stub_->ServiceDiscovery(&context, {}, &response).ok());
    ASSERT_EQ(response.urls_size(), 1);
    EXPECT_EQ(response.urls(0), "unix://" + socket());
  }
  EXPECT_EQ(clear(std::nullopt), "");
  {
    grpc::ClientContext context;
    v3::InfoResponse response;
    ASSERT_TRUE(stub_->Info(&context, {}, &response).ok());
    EXPECT_FALSE(response.requires_padding());
    EXPECT_EQ(response.dtype(), "torch.float32");
    EXPECT_EQ(response.device_type(), "cpu");
    EXPECT_FALSE(response.has_window_size());
    EXPECT_EQ(response.speculate(), 0U);
    EXPECT_TRUE(response.support_chunking());
    EXPECT_EQ(response.block_size(), kBlock);
    EXPECT_EQ(response.engine_version(), "fake-1");
  }
  {
    grpc::ClientContext context;
    v3::HealthResponse response;
    EXPECT_TRUE(stub_->Health(&context, {}, &response).ok());
  }
}

v3::WarmupRequest warmup_of(std::uint32_t n_requests, std::uint32_t truncate) {
  v3::WarmupRequest request;
  std::string text;
  for (std::uint32_t i = 0; i < truncate; ++i) text += "_test ";
  for (std::uint32_t i = 0; i < n_requests; ++i) {
    v3::Request& r = *request.mutable_batch()->add_requests();
    r.set_id(0);
    r.set_truncate(truncate);
    r.set_add_special_tokens(true);
    r.mutable_input_chunks()->add_chunks()->set_text(text);
    r.mutable_input_chunks()->add_chunks()->mutable_image()->set_mimetype("image/jpeg;base64");
    v3::NextTokenChooserParameters& p = *r.mutable_parameters();
    p.set_temperature(0.9F);
    p.set_top_k(10);
    p.set_top_p(0.9F);
    p.set_typical_p(0.9F);
    p.set_repetition_penalty(1.2F);
    p.set_frequency_penalty(0.1F);
    p.set_watermark(true);
    r.set_top_n_tokens(20);
    r.set_prefill_logprobs(true);
    r.mutable_stopping_parameters()->set_max_new_tokens(1000);
    r.mutable_stopping_parameters()->set_ignore_eos_token(true);
  }
  request.set_max_prefill_tokens(n_requests * truncate);
  return request;
}

TEST_F(StockRouter, WarmupReportsThePool) {
  grpc::ClientContext context;
  v3::WarmupResponse response;
  ASSERT_EQ(text_of(stub_->Warmup(&context, warmup_of(3, 50), &response)), "");
  EXPECT_EQ(response.max_supported_total_tokens(), 64 * kBlock);
  EXPECT_EQ(response.max_total_tokens(), 200U);  // the positions of the model
  EXPECT_EQ(response.max_input_tokens(), 199U);
  EXPECT_TRUE(runner_.live().empty());
  EXPECT_GE(runner_.n_steps(), 1U);

  v3::WarmupRequest limits = warmup_of(1, 20);
  limits.set_max_input_tokens(30);
  limits.set_max_total_tokens(40);
  grpc::ClientContext second;
  ASSERT_EQ(text_of(stub_->Warmup(&second, limits, &response)), "");
  EXPECT_EQ(response.max_total_tokens(), 40U);
  EXPECT_EQ(response.max_input_tokens(), 30U);
}

TEST_F(StockRouter, WarmupBeyondThePoolSaysWhatToLower) {
  grpc::ClientContext context;
  v3::WarmupResponse response;
  EXPECT_EQ(text_of(stub_->Warmup(&context, warmup_of(6, 50), &response)),
            "Not enough memory to handle 300 prefill tokens. You need to decrease "
            "`--max-batch-prefill-tokens`");
  EXPECT_TRUE(runner_.live().empty());
}

TEST_F(StockRouter, PrefillAndDecodeToTheEnd) {
  v3::PrefillResponse first;
  ASSERT_EQ(prefill(7, {request_of(1, "hello", 3, 1), request_of(2, "you", 5, 10)}, first), "");
  ASSERT_EQ(first.generations_size(), 2);
  EXPECT_EQ(first.generations(0).request_id(), 1U);
  EXPECT_FALSE(first.generations(0).has_prefill_tokens());
  EXPECT_FALSE(first.generations(0).has_generated_text());
  EXPECT_EQ(first.generations(0).tokens().texts(0), expected_text("hello", 1));
  EXPECT_EQ(first.generations(0).tokens().is_special_size(), 1);
  EXPECT_EQ(first.generations(0).top_tokens_size(), 0);
  ASSERT_TRUE(first.has_batch());
  EXPECT_EQ(first.batch().id(), 7U);
  EXPECT_EQ(first.batch().size(), 2U);
  EXPECT_EQ(first.batch().request_ids_size(), 2);
  EXPECT_EQ(first.batch().max_tokens(), 4 * kBlock);
  EXPECT_EQ(first.batch().current_tokens(), 2U);
  EXPECT_EQ(first.forward_ns(), 3U);
  EXPECT_EQ(first.decode_ns(), 4U);
  EXPECT_EQ(first.total_ns(), 8U);
  EXPECT_FALSE(first.has_concat_ns());

  v3::DecodeResponse response;
  ASSERT_EQ(decode({7}, response), "");
  ASSERT_EQ(decode({7}, response), "");
  ASSERT_EQ(response.generations_size(), 2);
  ASSERT_TRUE(response.generations(0).has_generated_text());
  EXPECT_EQ(response.generations(0).generated_text().text(), expected_text("hello", 3));
  EXPECT_EQ(response.generations(0).generated_text().generated_tokens(), 3U);
  EXPECT_EQ(response.generations(0).generated_text().finish_reason(), v3::FINISH_REASON_LENGTH);
  EXPECT_FALSE(response.generations(0).generated_text().has_seed());
  // The finished one stays listed until it is filtered out, but is not run.
  EXPECT_EQ(response.batch().size(), 2U);
  EXPECT_EQ(response.batch().current_tokens(), 1U);
  v3::FilterBatchResponse filtered;
  ASSERT_EQ(filter(7, {2}, filtered), "");
  EXPECT_EQ(filtered.batch().size(), 1U);
  EXPECT_EQ(filtered.batch().request_ids(0), 2U);
  ASSERT_EQ(decode({7}, response), "");
  EXPECT_EQ(response.generations_size(), 1);
  ASSERT_EQ(decode({7}, response), "");
  EXPECT_EQ(response.generations(0).generated_text().text(), expected_text("you", 5));
  EXPECT_FALSE(response.has_batch());
  EXPECT_EQ(decode({7}, response), "Batch ID 7 not found in cache.");
  EXPECT_TRUE(runner_.live().empty());
}

TEST_F(StockRouter, BatchesAreJoinedAndTheFirstIdStays) {
  v3::PrefillResponse prefilled;
  ASSERT_EQ(prefill(1, {request_of(1, "a", 9, 1)}, prefilled), "");
  ASSERT_EQ(prefill(2, {request_of(2, "bb", 9, 10)}, prefilled), "");
  v3::DecodeResponse response;
  ASSERT_EQ(decode({2, 1}, response), "");
  EXPECT_EQ(response.batch().id(), 2U);
  EXPECT_EQ(response.batch().size(), 2U);
  EXPECT_TRUE(response.has_concat_ns());
  EXPECT_EQ(response.generations(0).tokens().texts(0), expected_text("bb", 2).substr(1));
  EXPECT_EQ(response.generations(1).tokens().texts(0), expected_text("a", 2).substr(1));
  EXPECT_EQ(decode({1}, response), "Batch ID 1 not found in cache.");
  EXPECT_EQ(decode({2, 5}, response), "Batch ID 5 not found in cache.");
  // Taken out before the failure.
  EXPECT_EQ(decode({2}, response), "Batch ID 2 not found in cache.");
  EXPECT_TRUE(runner_.live().empty());
  EXPECT_EQ(decode({}, response), "Must provide at least one batch");
}

TEST_F(StockRouter, ChunkedPrefillJoinsTheRunningBatch) {
  grpc::ClientContext context;
  v3::WarmupResponse warm;
  // 8 prompt tokens a step.
  ASSERT_EQ(text_of(stub_->Warmup(&context, warmup_of(1, 8), &warm)), "");
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request_of(1, "a", 9, 1)}, response), "");
  v3::Request longer = request_of(2, "abcdefghijklmnopqrst", 2, 10);
  longer.set_chunk_len(7);
  v3::PrefillRequest mixed = prefill_of(2, {longer});
  mixed.mutable_cached_batch()->set_id(1);
  response.Clear();
  ASSERT_EQ(prefill(mixed, response), "");
  EXPECT_EQ(response.batch().id(), 1U);
  EXPECT_EQ(response.batch().current_tokens(), 8U);  // one to decode and a chunk of 7
  ASSERT_EQ(response.generations_size(), 1);         // none for the prompt that is not complete
  EXPECT_EQ(response.generations(0).request_id(), 1U);
  v3::DecodeResponse decoded;
  ASSERT_EQ(decode({1}, decoded), "");  // 14 of 20
  EXPECT_EQ(decoded.generations_size(), 1);
  EXPECT_EQ(decoded.batch().current_tokens(), 7U);
  ASSERT_EQ(decode({1}, decoded), "");
  ASSERT_EQ(decoded.generations_size(), 2);
  EXPECT_EQ(decoded.generations(1).tokens().texts(0), expected_text("abcdefghijklmnopqrst", 1));
  ASSERT_EQ(decode({1}, decoded), "");
  EXPECT_EQ(decoded.generations(1).generated_text().text(),
            expected_text("abcdefghijklmnopqrst", 2));
}

TEST_F(StockRouter, ACachedPrefixIsReadFromItsBlocks) {
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request_of(1, "abcdefgh", 1, 1)}, response), "");
  EXPECT_FALSE(response.has_batch());
  v3::Request next = request_of(2, "abcdefghij", 1, 1);
  next.set_cache_len(8);
  next.set_blocks(2, 20);
  next.set_slots(8, 80);
  next.set_slots(9, 81);
  ASSERT_EQ(prefill(2, {next}, response), "");
  EXPECT_EQ(response.generations(0).tokens().texts(0), expected_text("abcdefghij", 1));
}

TEST_F(StockRouter, PromptLogprobsTopTokensAndSeed) {
  v3::Request request = request_of(1, "abc", 1, 1);
  request.set_prefill_logprobs(true);
  request.set_top_n_tokens(2);
  request.mutable_parameters()->set_top_k(5);  // asks for sampling without saying so
  request.mutable_parameters()->set_seed(99);
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request}, response), "");
  const v3::Generation& generation = response.generations(0);
  ASSERT_EQ(generation.prefill_tokens().ids_size(), 3);
  EXPECT_TRUE(std::isnan(generation.prefill_tokens().logprobs(0)));
  EXPECT_EQ(generation.prefill_tokens().texts(2), "c");
  EXPECT_EQ(generation.prefill_tokens().is_special_size(), 0);
  ASSERT_EQ(generation.top_tokens_size(), 1);
  EXPECT_EQ(generation.top_tokens(0).texts(1), "b");
  EXPECT_EQ(generation.generated_text().seed(), 99U);
}

TEST_F(StockRouter, PromptsAreCutFromTheLeftAndKeepTheirSpecialTokens) {
  v3::Request request = request_of(1, "abcdef", 1, 1);
  request.set_add_special_tokens(true);
  request.set_truncate(4);
  request.set_prefill_logprobs(true);
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request}, response), "");
  const auto& texts = response.generations(0).prefill_tokens().texts();
  EXPECT_EQ(std::vector<std::string>(texts.begin(), texts.end()),
            (std::vector<std::string>{"<s>", "d", "e", "f"}));
}

TEST_F(StockRouter, AGrammarIsCompiledAsItsTypeSays) {
  v3::Request request = request_of(1, "abc", 2, 1);
  grammar::Compiler grammars;
  const auto grammar_of = [&](const std::string& text, v3::GrammarType type) {
    request.mutable_parameters()->set_grammar(text);
    request.mutable_parameters()->set_grammar_type(type);
    const auto read = read_stock_request(
        request, testing::FakeCodec(), runner_.info(), StockUse::kGenerate, grammars);
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? read->spec.sampling.grammar : CompiledGrammar();
  };
  using Kind = grammar::Source::Kind;
  EXPECT_FALSE(grammar_of("", v3::GRAMMAR_TYPE_REGEX));
  EXPECT_EQ(grammar_of("[ab]{3}", v3::GRAMMAR_TYPE_REGEX),
            grammar::compile_source({.kind = Kind::kRegex, .text = "[ab]{3}"}).value());
  const std::string schema = R"({"properties":{"a":{"type":"null"}},"required":["a"]})";
  EXPECT_EQ(grammar_of(schema, v3::GRAMMAR_TYPE_JSON),
            grammar::compile_source(
                {.kind = Kind::kJsonSchema, .text = schema, .schema = grammar::kTgiSchema})
                .value());
}

// A shard that was started with --speculate: its router has given blocks for the guesses, too, or, as one of
// generate.v2, has not.
TEST_F(StockRouter, AShardThatGuessesYieldsSeveralTokensAStep) {
  for (const bool forces : {false, true}) {
    batch::testing::FakeRunnerOptions fake = testing::fake_shard_options();
    fake.capabilities.draft_tokens_max = 3;
    fake.forces_tokens = forces;
    other_.emplace(fake);
    start(*other_);
    grpc::ClientContext context;
    v3::InfoResponse info;
    ASSERT_TRUE(stub_->Info(&context, {}, &info).ok());
    EXPECT_EQ(info.speculate(), 3U);
    std::map<std::uint64_t, std::string> texts;
    std::map<std::uint64_t, int> n_tokens;
    std::map<std::uint64_t, v3::GeneratedText> ends;
    int n_most = 0;
    const auto note = [&](const auto& response) {
      for (const v3::Generation& generation : response.generations()) {
        const v3::Tokens& tokens = generation.tokens();
        EXPECT_EQ(generation.top_tokens_size(), tokens.ids_size());
        n_most = std::max(n_most, tokens.ids_size());
        n_tokens[generation.request_id()] += tokens.ids_size();
        for (const std::string& text : tokens.texts()) texts[generation.request_id()] += text;
        if (generation.has_generated_text())
          ends[generation.request_id()] = generation.generated_text();
      }
    };
    std::vector<v3::Request> requests = {request_of(1, "hello", 30, 1),
                                         request_of(2, "you", 25, 20)};
    for (v3::Request& request : requests) request.set_top_n_tokens(2);
    v3::PrefillResponse first;
    ASSERT_EQ(prefill(7, requests, first), "");
    note(first);
    v3::DecodeResponse response;
    int n_steps = 0;
    for (bool goes_on = first.has_batch(); goes_on; goes_on = response.has_batch(), ++n_steps) {
      ASSERT_EQ(decode({7}, response), "");
      note(response);
    }
    EXPECT_GT(n_most, 1);
    EXPECT_LT(n_steps, 29);
    EXPECT_EQ(n_tokens[1], 30);
    EXPECT_EQ(n_tokens[2], 25);
    EXPECT_EQ(texts[1], expected_text("hello", 30));
    EXPECT_EQ(texts[2], expected_text("you", 25));
    EXPECT_EQ(ends[1].text(), texts[1]);
    EXPECT_EQ(ends[1].generated_tokens(), 30U);
    EXPECT_TRUE(other_->live().empty());
    EXPECT_TRUE(other_->violations().empty());
  }
}

TEST_F(StockRouter, StopSequencesEndARequest) {
  v3::Request request = request_of(1, "abc", 9, 1);
  request.mutable_stopping_parameters()->add_stop_sequences(expected_text("abc", 1));
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request}, response), "");
  EXPECT_EQ(response.generations(0).generated_text().finish_reason(),
            v3::FINISH_REASON_STOP_SEQUENCE);
  EXPECT_FALSE(response.has_batch());
}

TEST_F(StockRouter, TheHealthGenerationUsesBlockZero) {
  constexpr std::uint64_t kLiveness = std::numeric_limits<std::uint64_t>::max();
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request_of(1, "abc", 9, 1)}, response), "");
  v3::Request request = request_of(kLiveness, "liveness", 1, 0);
  request.set_truncate(1);
  request.clear_blocks();
  request.clear_slots();
  request.add_blocks(0);
  request.add_slots(0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(prefill(kLiveness, {request}, response), "");
    EXPECT_TRUE(response.generations(0).has_generated_text());
    EXPECT_FALSE(response.has_batch());
  }
  v3::DecodeResponse decoded;
  EXPECT_EQ(decode({1}, decoded), "");
}

TEST_F(StockRouter, FilterAndClear) {
  v3::PrefillResponse response;
  ASSERT_EQ(
      prefill(
          1,
          {request_of(1, "abc", 9, 1), request_of(2, "def", 9, 10), request_of(3, "ghi", 9, 20)},
          response),
      "");
  v3::FilterBatchResponse filtered;
  ASSERT_EQ(filter(1, {3, 1}, filtered), "");
  EXPECT_EQ(filtered.batch().request_ids(0), 3U);
  EXPECT_EQ(runner_.live().size(), 2U);
  // The blocks of the one that left are free again.
  ASSERT_EQ(prefill(2, {request_of(4, "xyz", 9, 10)}, response), "");
  EXPECT_EQ(filter(5, {1}, filtered), "Batch ID 5 not found in cache.");
  EXPECT_EQ(filter(1, {}, filtered), "Batch must have at least one request");
  EXPECT_EQ(runner_.live().size(), 1U);
  EXPECT_EQ(filter(2, {9}, filtered), "Request ID 9 not found in batch 2.");
  EXPECT_TRUE(runner_.live().empty());
  ASSERT_EQ(prefill(3, {request_of(1, "abc", 9, 1)}, response), "");
  ASSERT_EQ(prefill(4, {request_of(2, "abc", 9, 10)}, response), "");
  EXPECT_EQ(clear(3), "");
  EXPECT_EQ(clear(3), "");
  EXPECT_EQ(runner_.live().size(), 1U);
  EXPECT_EQ(clear(std::nullopt), "");
  EXPECT_TRUE(runner_.live().empty());
}

TEST_F(StockRouter, AFailedStepForgetsItsBatch) {
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request_of(1, "abc", 9, 1)}, response), "");
  runner_.fail_next(internal_error("out of something"));
  v3::DecodeResponse decoded;
  EXPECT_EQ(decode({1}, decoded), "out of something");
  EXPECT_EQ(decode({1}, decoded), "Batch ID 1 not found in cache.");
  EXPECT_TRUE(runner_.live().empty());
  runner_.fail_sequences_starting_with(10 + 'z');
  EXPECT_EQ(prefill(2, {request_of(1, "abc", 9, 1), request_of(2, "zzz", 9, 10)}, response),
            "told to fail");
  EXPECT_TRUE(runner_.live().empty());
  EXPECT_EQ(prefill(2, {request_of(1, "abc", 9, 1)}, response), "");
}

TEST_F(StockRouter, WhatAFailedStepDidNotForgetTheNextOneForgets) {
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request_of(1, "abc", 9, 1)}, response), "");
  const auto first = runner_.live();
  runner_.fail_next(internal_error("out of something"));
  ASSERT_EQ(clear(1), "");
  EXPECT_EQ(runner_.live(), first);
  ASSERT_EQ(prefill(2, {request_of(2, "abd", 9, 1)}, response), "");
  EXPECT_EQ(runner_.live().size(), 1U);
  EXPECT_NE(runner_.live(), first);
  runner_.keep_plans();
  v3::DecodeResponse decoded;
  ASSERT_EQ(decode({2}, decoded), "");
  EXPECT_TRUE(runner_.plans().at(0).dropped.empty());
}

TEST_F(StockRouter, SecondKvGroupGetsItsOwnBlocks) {
  auto options = testing::fake_shard_options();
  options.windows = {0, 8};
  options.n_blocks = {64, 4};
  other_.emplace(options);
  start(*other_);
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request_of(1, "abcd", 9, 20)}, response), "");  // 3 of 4 blocks
  EXPECT_EQ(prefill(2, {request_of(2, "abcd", 9, 30)}, response),
            "not enough KV blocks: 3 are needed, 1 are free");
  EXPECT_EQ(clear(std::nullopt), "");
  EXPECT_EQ(prefill(2, {request_of(2, "abcd", 9, 30)}, response), "");
  EXPECT_TRUE(other_->violations().empty());
}

TEST_F(StockRouter, AnEngineStreamKeepsStockCallsOut) {
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request_of(1, "abc", 9, 1)}, response), "");
  auto client = ShardedClient::connect(socket(), {});
  ASSERT_TRUE(client.ok()) << client.status().message();
  StepPlan plan;
  plan.step = 1;
  plan.epoch = 77;
  ASSERT_TRUE(client.value()->run(plan).ok());
  EXPECT_TRUE(runner_.live().empty());  // the stock batch is gone
  v3::DecodeResponse decoded;
  EXPECT_EQ(decode({1}, decoded), "an Engine stream drives this shard");
  EXPECT_TRUE(client.value()->healthy().ok());
}

TEST_F(StockRouter, VersionTwoNamesNoBlocks) {
  v2::PrefillRequest request;
  request.mutable_batch()->set_id(1);
  for (std::uint64_t id = 1; id <= 2; ++id) {
    v2::Request& r = *request.mutable_batch()->add_requests();
    r.set_id(id);
    r.set_inputs("abc");
    r.set_truncate(100);
    r.mutable_parameters()->set_temperature(1);
    r.mutable_parameters()->set_top_p(1);
    r.mutable_parameters()->set_typical_p(1);
    r.mutable_parameters()->set_repetition_penalty(1);
    r.mutable_stopping_parameters()->set_max_new_tokens(2);
  }
  v2::PrefillResponse response;
  grpc::ClientContext context;
  ASSERT_EQ(text_of(stub2_->Prefill(&context, request, &response)), "");
  ASSERT_EQ(response.generations_size(), 2);
  const TokenId expected = expected_output(*codec_->encode("abc", true), 1).tokens[0];
  EXPECT_EQ(response.generations(0).tokens().ids(0), static_cast<std::uint32_t>(expected));
  EXPECT_EQ(response.generations(1).tokens().ids(0), static_cast<std::uint32_t>(expected));
  v2::DecodeRequest next;
  next.add_batches()->set_id(1);
  v2::DecodeResponse decoded;
  grpc::ClientContext second;
  ASSERT_EQ(text_of(stub2_->Decode(&second, next, &decoded)), "");
  EXPECT_EQ(decoded.generations(1).generated_text().generated_tokens(), 2U);
  EXPECT_FALSE(decoded.has_batch());
  v2::InfoResponse info;
  grpc::ClientContext third;
  ASSERT_TRUE(stub2_->Info(&third, {}, &info).ok());
  EXPECT_EQ(info.dtype(), "torch.float32");
  EXPECT_TRUE(info.GetReflection()->GetUnknownFields(info).empty());
}

}  // namespace
}  // namespace coxswain::rpc
