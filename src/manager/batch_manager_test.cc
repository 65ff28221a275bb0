#include <atomic>
#include <thread>

#include <coxswain/batch_manager.h>

#include "batch/testing/fake_runner.h"
#include "manager/testing/managed.h"
#include "manager/testing/program.h"

namespace coxswain::manager {
namespace {

using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using testing::at_the_third_response;
using testing::find;
using testing::Given;
using testing::joined;
using testing::kPrompt;
using testing::make_request;
using testing::Managed;
using testing::number;
using testing::plain_request;
using testing::Program;
using testing::Reply;

TEST(BatchManager, AnswersAtOnceWithThePromptUnlessItStreams) {
  Managed run;
  run.program.submit(make_request(7, kPrompt, 6));
  run.program.submit(make_request(8, kPrompt, 6, true));
  const std::vector<TokenId> output = run.expected(kPrompt, 6);
  const Reply whole = run.program.wait(7);
  ASSERT_EQ(whole.responses.size(), 1U);
  EXPECT_EQ(whole.ids(), joined(kPrompt, output));
  const NamedTensor* ids = find(whole.responses[0], "output_ids");
  const NamedTensor* length = find(whole.responses[0], "sequence_length");
  EXPECT_EQ(ids->shape, (std::vector<std::int64_t>{1, 1, 11}));
  EXPECT_EQ(length->shape, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(length->as<std::int32_t>().front(), 11);
  const Reply stream = run.program.wait(8);
  EXPECT_EQ(stream.ids(), output);
  EXPECT_EQ(stream.error(), "");
  for (const auto& outputs : stream.responses)
    EXPECT_EQ(find(outputs, "output_ids")->shape[2],
              find(outputs, "sequence_length")->as<std::int32_t>().front());
}

TEST(BatchManager, LeavesThePromptOutIfAsked) {
  Managed run({.options = {.exclude_input_in_output = true}});
  run.program.submit(make_request(7, kPrompt, 6));
  EXPECT_EQ(run.program.wait(7).ids(), run.expected(kPrompt, 6));
}

TEST(BatchManager, TellsLogProbabilities) {
  Managed run;
  for (const bool streaming : {false, true}) {
    auto request = make_request(7, kPrompt, 4, streaming);
    request->set(NamedTensor::of<bool>("return_log_probs", {1}, {true}));
    run.program.submit(request);
  }
  const auto expected = expected_output(run.fake, plain_request(kPrompt, 4)).logprobs;
  float sum = 0.0F;
  for (const float logprob : expected) sum += logprob;
  // Of one id, one behind the other: the second was refused or came after the first.
  const Reply reply = run.program.wait(7, 2);
  std::vector<float> all;
  for (const auto& outputs : reply.responses) {
    if (const NamedTensor* t = find(outputs, "output_log_probs")) {
      EXPECT_EQ(t->shape, (std::vector<std::int64_t>{1, 1, std::int64_t(t->as<float>().size())}));
      all.insert(all.end(), t->as<float>().begin(), t->as<float>().end());
      EXPECT_EQ(find(outputs, "cum_log_probs")->shape, (std::vector<std::int64_t>{1, 1}));
    }
  }
  EXPECT_EQ(all, expected);
  EXPECT_FLOAT_EQ(find(reply.responses.back(), "cum_log_probs")->as<float>().front(), sum);
}

// get, then sends, then poll, then stats, once in each iteration.
TEST(BatchManager, CallsInOrder) {
  Managed run;
  run.program.submit(make_request(7, kPrompt, 5, true));
  run.program.wait(7);
  run.program.wait_asked(run.program.asked().size() + 2);  // the last iteration has ended
  run.manager.reset();
  const std::vector<std::string> log = run.program.log();
  std::size_t at = 0;
  int n_iterations = 0;
  while (at < log.size() && log[at] == "get") {
    ++at;
    while (at < log.size() && log[at].starts_with("send")) ++at;
    ASSERT_LT(at + 1, log.size());
    EXPECT_EQ(log[at], "poll");
    EXPECT_EQ(log[at + 1], "stats");
    at += 2;
    ++n_iterations;
  }
  EXPECT_EQ(at, log.size()) << "out of order: " << log[std::min(at, log.size() - 1)];
  EXPECT_GE(n_iterations, 5);
  EXPECT_EQ(std::ranges::count(log, "send 7 final"), 1);
}

TEST(BatchManager, FreesEverythingBeforeTheFinalResponse) {
  std::weak_ptr<InferenceRequest> held;
  std::atomic<bool> was_free{false};
  Managed run({}, [&](Managed& m) {
    m.program.on_send = [&](std::uint64_t, bool final) {
      if (final) was_free = held.expired();
    };
  });
  auto request = make_request(7, kPrompt, 6);
  held = request;
  run.program.submit(std::move(request));
  run.program.wait(7);
  run.manager.reset();
  EXPECT_TRUE(was_free);
}

TEST(BatchManager, BlocksAreFreeWhenTheFinalResponseLeaves) {
  Given setup;
  setup.fake.eos_every = 3;
  setup.options.enable_kv_cache_reuse = false;
  Managed run(setup);
  for (std::uint64_t id = 1; id <= 20; ++id) {
    // An end token that nobody foresees: the next step is on its way and names the blocks.
    auto request = make_request(id, {TokenId(id), 3, 4}, 30);
    request->set(NamedTensor::of<std::int32_t>("end_id", {1}, {1}));
    run.program.submit(request);
    run.program.wait(id);
  }
  run.manager.reset();
  // The statistics behind each final response: nothing else runs.
  const std::vector<std::string> log = run.program.log();
  const std::vector<std::string> stats = run.program.stats();
  std::size_t n_stats = 0;
  bool ended = false;
  for (const std::string& call : log) {
    ended = ended || call.ends_with("final");
    if (call != "stats") continue;
    if (std::exchange(ended, false)) {
      EXPECT_EQ(number(stats[n_stats], "Used KV cache blocks"), 0U);
    }
    ++n_stats;
  }
}

TEST(BatchManager, AnIdMayBeUsedAgainFromItsFinalResponseOn) {
  std::atomic<int> n_sent{0};
  Managed run({}, [&](Managed& m) {
    m.program.on_send = [&](std::uint64_t id, bool final) {
      if (final && ++n_sent < 5) m.program.submit(make_request(id, kPrompt, 3));
    };
  });
  run.program.submit(make_request(7, kPrompt, 3));
  const Reply reply = run.program.wait(7, 5);
  EXPECT_EQ(reply.responses.size(), 5U);
  for (const std::string& error : reply.errors) EXPECT_EQ(error, "");
}

TEST(BatchManager, RefusesAnIdThatIsServed) {
  Managed run({}, [](Managed& m) {
    m.program.submit(make_request(7, kPrompt, 6));
    m.program.submit(make_request(7, kPrompt, 6));
  });
  const Reply reply = run.program.wait(7, 2);
  ASSERT_EQ(reply.errors.size(), 2U);
  EXPECT_EQ(reply.errors[0], "request 7 is still being served");
  EXPECT_EQ(reply.errors[1], "");
  EXPECT_EQ(reply.ids(), joined(kPrompt, run.expected(kPrompt, 6)));
}

TEST(BatchManager, APauseRepeatsNoToken) {
  Given setup;
  setup.fake.n_blocks = {25};  // 96 positions
  setup.policy = CapacityPolicy::kMaxUtilization;
  Managed run(setup, [](Managed& m) {
    for (std::uint64_t id = 1; id <= 4; ++id)
      m.program.submit(make_request(id, {TokenId(id), 2, 3}, 50, true));
  });
  for (std::uint64_t id = 1; id <= 4; ++id)
    EXPECT_EQ(run.program.wait(id).ids(), run.expected({TokenId(id), 2, 3}, 50));
  run.manager.reset();
  std::uint64_t n_paused = 0;
  for (const std::string& json : run.program.stats()) n_paused += number(json, "Paused Requests");
  EXPECT_GT(n_paused, 0U);
}

TEST(BatchManager, TheDestructorDrains) {
  Managed run;
  run.runner->hold();
  std::vector<std::shared_ptr<InferenceRequest>> requests;
  for (std::uint64_t id = 1; id <= 5; ++id)
    requests.push_back(make_request(id, {TokenId(id), 2}, 20));
  run.program.submit_all(requests);
  run.runner->wait_for_submitted(1);
  std::thread destroyer([&] { run.manager.reset(); });
  run.runner->release();
  destroyer.join();
  for (std::uint64_t id = 1; id <= 5; ++id) {
    const Reply reply = run.program.reply(id);
    ASSERT_EQ(reply.n_final, 1) << id;
    EXPECT_EQ(reply.ids(), joined({TokenId(id), 2}, run.expected({TokenId(id), 2}, 20)));
  }
}

TEST(BatchManager, StopsWhatIsNamedAndNothingElse) {
  Managed run({}, at_the_third_response(1, [](Managed& m) {
                m.program.stop(1);
                m.program.stop(99);
              }));
  run.program.submit(make_request(1, kPrompt, 200, true));
  run.program.submit(make_request(2, {2, 3}, 100, true));
  const Reply stopped = run.program.wait(1);
  EXPECT_EQ(stopped.error(), "");
  const std::vector<TokenId> all = run.expected(kPrompt, 200);
  const std::vector<TokenId> some = stopped.ids();
  EXPECT_GE(some.size(), 3U);
  EXPECT_LE(some.size(), 5U);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  EXPECT_EQ(run.program.wait(2).ids(), run.expected({2, 3}, 100));
}

TEST(BatchManager, AStoppedRequestThatDoesNotStreamGetsWhatThereIs) {
  Managed run({}, at_the_third_response(2, [](Managed& m) { m.program.stop(1); }));
  run.program.submit(make_request(1, kPrompt, 100));
  run.program.submit(make_request(2, {2, 3}, 100, true));
  const std::vector<TokenId> all = joined(kPrompt, run.expected(kPrompt, 100));
  const std::vector<TokenId> some = run.program.wait(1).ids();
  EXPECT_GT(some.size(), kPrompt.size());
  EXPECT_LT(some.size(), all.size());
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
}

TEST(BatchManager, AStopMessageStopsTheRequestOfItsId) {
  Managed run({}, at_the_third_response(1, [](Managed& m) {
                for (const std::uint64_t id : {std::uint64_t{1}, std::uint64_t{99}}) {
                  auto message = std::make_shared<InferenceRequest>(id);
                  message->set(NamedTensor::of<bool>("stop", {1}, {true}));
                  m.program.submit(message);
                }
              }));
  run.program.submit(make_request(1, kPrompt, 200, true));
  const Reply reply = run.program.wait(1);
  EXPECT_EQ(reply.error(), "");
  EXPECT_LE(reply.ids().size(), 5U);
  EXPECT_TRUE(run.program.reply(99).responses.empty());
}

TEST(BatchManager, AsksForWhatIsMissing) {
  Managed run({.options = {.max_num_requests = 3}});
  run.program.wait_asked(2);
  EXPECT_EQ(run.program.asked().front(), 3);
  run.runner->hold();
  for (std::uint64_t id = 1; id <= 4; ++id)
    run.program.submit(make_request(id, {TokenId(id), 2}, 8));
  run.runner->release();
  for (std::uint64_t id = 1; id <= 4; ++id) run.program.wait(id);
  const std::vector<std::int32_t> asked = run.program.asked();
  EXPECT_EQ(std::ranges::min(asked), 0);
  EXPECT_EQ(std::ranges::max(asked), 3);
}

TEST(BatchManager, AsksForAnyNumberWithoutALimit) {
  Managed run({.options = {.max_num_requests = 0}});
  run.program.submit(make_request(1, kPrompt, 3));
  run.program.wait(1);
  for (const std::int32_t n : run.program.asked()) EXPECT_LT(n, 0);
}

TEST(BatchManager, RefusesWhatIsAboveTheLimit) {
  Program program;
  BatchManagerCallbacks on = program.callbacks();
  const auto get = on.get_requests;
  on.get_requests = [&](std::int32_t) { return get(-1); };
  Managed run({.options = {.max_num_requests = 1}}, std::move(on));
  run.runner->hold();
  program.submit(make_request(1, kPrompt, 50));
  run.runner->wait_for_submitted(1);
  program.submit(make_request(2, kPrompt, 3));
  run.runner->release();
  EXPECT_EQ(program.wait(2).error(), "`max_num_requests` is 1: as many requests are being served");
  EXPECT_EQ(program.wait(1).error(), "");
}

TEST(BatchManager, RefusesWhatIsAboveTheQueue) {
  Program program;
  BatchManagerCallbacks on = program.callbacks();
  const auto get = on.get_requests;
  on.get_requests = [&](std::int32_t) { return get(-1); };
  for (std::uint64_t id = 1; id <= 3; ++id) program.submit(make_request(id, kPrompt, 5));
  const Managed run({.options = {.max_queue_size = 2}}, std::move(on));
  EXPECT_EQ(program.wait(3).error(), "`max_queue_size` is 2: as many requests wait for their turn");
  EXPECT_EQ(program.wait(1).error(), "");
  EXPECT_EQ(program.wait(2).error(), "");
}

TEST(BatchManager, IsAskedAtOnceAfterNotify) {
  Managed run({.options = {.idle_poll = std::chrono::hours(10)}});
  run.program.wait_asked(1);
  run.program.submit(make_request(1, kPrompt, 3));
  run.manager->notify();
  EXPECT_EQ(run.program.wait(1).error(), "");
}

TEST(BatchManager, TellsNoStatisticsWhileIdle) {
  Managed run({.options = {.idle_poll = std::chrono::microseconds(100)}});
  run.program.submit(make_request(1, kPrompt, 5));
  run.program.wait(1);
  run.program.wait_asked(run.program.asked().size() + 50);
  const std::vector<std::string> stats = run.program.stats();
  ASSERT_GE(stats.size(), 5U);
  EXPECT_LT(stats.size(), 12U);
  for (std::size_t i = 0; i < stats.size(); ++i) {
    EXPECT_EQ(number(stats[i], "Iteration Counter"), i + 1);
    EXPECT_EQ(number(stats[i], "Active Request Count"), 1U);
    EXPECT_EQ(number(stats[i], "Max Request Count"), 256U);
  }
}

TEST(BatchManager, HasGaugesOfTheLastIteration) {
  Managed run({}, at_the_third_response(1, [](Managed& m) { m.runner->hold(); }));
  run.program.submit(make_request(1, kPrompt, 20, true));
  run.program.wait_responses(1, 3);
  const std::string active = "nv_trt_llm_request_metrics{request_type=\"active\"} ";
  while (run.manager->gauges().find(active + "1\n") == std::string::npos) std::this_thread::yield();
  run.runner->release();
  run.program.wait(1);
  while (run.manager->gauges().find(active + "0\n") == std::string::npos) std::this_thread::yield();
}

TEST(BatchManager, TooLongIsRefused) {
  Given setup;
  setup.fake.about.max_total_tokens = 40;
  setup.fake.about.max_input_tokens = 20;
  Managed run(setup);
  run.program.submit(make_request(1, std::vector<TokenId>(21, 3), 1));
  run.program.submit(make_request(2, std::vector<TokenId>(20, 3), 21));
  run.program.submit(make_request(3, std::vector<TokenId>(20, 3), 20));
  EXPECT_EQ(run.program.wait(1).error(),
            "`input_ids`: the prompt has 21 tokens, the runner takes 20");
  EXPECT_EQ(run.program.wait(2).error(),
            "`request_output_len`: the request has 20 tokens of the prompt and 21 new ones, the "
            "runner takes 40 together");
  EXPECT_EQ(run.program.wait(3).error(), "");
}

// With chunks the second would share the first step; so it has one of its own.
TEST(BatchManager, WithoutChunksAPromptIsComputedInOneStep) {
  for (const bool chunks : {true, false}) {
    Managed run({.options = {.max_num_tokens = 8, .enable_chunked_context = chunks}},
                [](Managed& m) {
                  m.runner->keep_plans();
                  m.program.submit(make_request(1, {1, 2, 3, 4, 5}, 1));
                  m.program.submit(make_request(2, {6, 7, 8, 9, 10, 11, 12, 13}, 1));
                  m.program.submit(make_request(3, std::vector<TokenId>(9, 3), 1));
                });
    for (std::uint64_t id = 1; id <= 2; ++id) EXPECT_EQ(run.program.wait(id).error(), "");
    EXPECT_EQ(run.program.wait(3).error(),
              chunks ? ""
                     : "`input_ids` must be at most `max_num_tokens`, 8, tokens: "
                       "`enable_chunked_context` is off. Given: 9");
    run.manager.reset();
    std::vector<std::uint32_t> n_tokens;
    for (const StepPlan& plan : run.runner->plans())
      for (const Row& row : plan.rows) n_tokens.push_back(row.n_tokens);
    if (chunks) {
      EXPECT_GT(n_tokens.size(), 3U);
    } else {
      EXPECT_EQ(n_tokens, (std::vector<std::uint32_t>{5, 8}));
    }
  }
}

TEST(BatchManager, TheTerminateIdMakesTheWorkerLeave) {
  Managed run({.options = {.terminate_req_id = 99}});
  run.program.submit(make_request(1, kPrompt, 20));
  run.program.submit(std::make_shared<InferenceRequest>(std::uint64_t{99}));
  EXPECT_EQ(run.program.wait(1).ids(), joined(kPrompt, run.expected(kPrompt, 20)));
  const std::size_t n_asked = run.program.asked().size();
  run.manager->notify();
  run.manager.reset();
  EXPECT_EQ(run.program.asked().size(), n_asked);
  EXPECT_TRUE(run.program.reply(99).responses.empty());
}

TEST(BatchManager, V1TakesNobodyIntoABatchThatRuns) {
  Managed run({.type = BatchingType::kV1});
  run.runner->hold();
  run.program.submit(make_request(1, kPrompt, 30, true));
  run.runner->wait_for_submitted(1);
  run.program.submit(make_request(2, {2, 3}, 4, true));
  run.runner->release();
  EXPECT_EQ(run.program.wait(2).ids(), run.expected({2, 3}, 4));
  EXPECT_EQ(run.program.wait(1).ids(), run.expected(kPrompt, 30));
  run.manager.reset();
  const std::vector<std::string> log = run.program.log();
  EXPECT_LT(std::ranges::find(log, "send 1 final"), std::ranges::find(log, "send 2"));
}

TEST(BatchManager, ALostRunnerEndsAllRequests) {
  Given setup;
  setup.fake.n_blocks = {17};  // 64 positions: one request at a time
  Managed run(setup, at_the_third_response(1, [](Managed& m) {
                m.runner->fail_next({Code::kUnavailable, "the shard is gone"});
              }));
  run.runner->hold();
  run.program.submit(make_request(1, kPrompt, 50, true));
  run.program.submit(make_request(2, {2, 3}, 50, true));
  run.runner->release();
  EXPECT_EQ(run.program.wait(1).error(), "the shard is gone");
  EXPECT_EQ(run.program.wait(2).error(), "the model runner is lost");
  run.program.submit(make_request(3, kPrompt, 5));
  EXPECT_EQ(run.program.wait(3).error(), "no model runner is available");
}

TEST(BatchManager, AFailingSequenceFailsAlone) {
  Managed run;
  run.runner->fail_sequences_starting_with(5);
  run.program.submit(make_request(1, kPrompt, 5));
  run.program.submit(make_request(2, {2, 3}, 5));
  const Reply failed = run.program.wait(1);
  EXPECT_EQ(failed.error(), "told to fail");
  EXPECT_TRUE(failed.responses[0].empty());
  EXPECT_EQ(run.program.wait(2).error(), "");
}

TEST(BatchManager, AHigherPriorityGoesFirst) {
  Given setup;
  setup.fake.n_blocks = {17};
  Managed run(setup);
  run.runner->hold();
  run.program.submit(make_request(1, kPrompt, 50));
  run.runner->wait_for_submitted(1);
  for (std::uint64_t id = 2; id <= 4; ++id) {
    auto request = make_request(id, {TokenId(id), 3}, 40);
    const float priority = id == 4 ? 0.5F : 0.25F;
    request->set(NamedTensor::of<float>("priority", {1}, {priority}));
    run.program.submit(request);
  }
  run.runner->release();
  for (std::uint64_t id = 1; id <= 4; ++id) run.program.wait(id);
  run.manager.reset();
  const std::vector<std::string> log = run.program.log();
  EXPECT_LT(std::ranges::find(log, "send 4 final"), std::ranges::find(log, "send 2 final"));
}

TEST(BatchManager, SaysWhatIsWrongWithItsParameters) {
  Program program;
  const auto runner = std::make_shared<FakeRunner>(FakeRunnerOptions{});
  const auto message =
      [&](std::int32_t width, BatchManagerCallbacks on, const BatchManagerOptions& options) {
        return BatchManager::create(runner,
                                    BatchingType::kInflight,
                                    width,
                                    CapacityPolicy::kMaxUtilization,
                                    std::move(on),
                                    options)
            .status()
            .message();
      };
  EXPECT_EQ(message(17, program.callbacks(), {}),
            "`max_beam_width` must be >= 1 and <= 16. Given: 17");
  EXPECT_EQ(message(1, {}, {}), "`get_requests` must be there. Given: no function");
  EXPECT_EQ(message(1, program.callbacks(), {.idle_poll = {}}),
            "`idle_poll` must be > 0 us. Given: 0 us");
  EXPECT_EQ(message(1, program.callbacks(), {.max_batch_size = 0}),
            "`max_batch_size` must be >= 1. Given: 0");
  EXPECT_EQ(message(1, program.callbacks(), {}), "");
}

}  // namespace
}  // namespace coxswain::manager
