// Requests whose prompts are computed by one engine and that go on in another: tokens are those of the undisturbed
// request, whatever goes wrong on the way, and in the end nobody holds a block.

#include "batch/handover.h"

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "batch/engine_core.h"
#include "batch/testing/core_driver.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"

namespace coxswain::batch {
namespace {

using testing::expected_output;
using testing::ExpectedOutput;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::Recorder;
using testing::RequestMaker;
using namespace std::chrono_literals;

FakeRunnerOptions fake_options(std::vector<std::uint32_t> windows = {0},
                               std::uint32_t n_blocks = 65) {
  FakeRunnerOptions out;
  out.windows = std::move(windows);
  out.n_blocks.assign(out.windows.size(), n_blocks);
  out.capabilities.attachments = true;
  out.capabilities.attachment_bytes_max = 22 << 10;
  out.about.max_total_tokens = 240;
  return out;
}

GenerationRequest request(std::size_t n_prompt, std::uint32_t n_new, std::uint64_t id = 1) {
  GenerationRequest out;
  out.id = RequestId{id};
  for (std::size_t i = 0; i < n_prompt; ++i)
    out.prompt.push_back(static_cast<TokenId>((i * 7 + 3 + id) % 50));
  out.stopping.max_new_tokens = n_new;
  return out;
}

// An engine with its runner. In the end the runner's rules were kept, and no block is held.
struct Replica {
  explicit Replica(const FakeRunnerOptions& fake, EngineOptions options = {})
      : runner(std::make_shared<FakeRunner>(fake)) {
    options.check_invariants = true;
    engine = Engine::create(runner, options);
  }
  ~Replica() {
    EXPECT_TRUE(engine->drain(10s));
    wait_for_no_leases();
    engine.reset();
    EXPECT_TRUE(runner->violations().empty()) << runner->violations().front();
    EXPECT_TRUE(runner->attached().empty()) << "an attachment is left";
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Where it stays so, the test fails by the limit of the whole program.
  void wait_for_no_leases() const {
    while (engine->stats().blocks_leased > 0) std::this_thread::sleep_for(1ms);
  }

  std::shared_ptr<FakeRunner> runner;
  std::unique_ptr<Engine> engine;
};

struct FirstLife {
  std::shared_ptr<Recorder> sink = std::make_shared<Recorder>();
  std::shared_ptr<const ParkedContext> parked;
  GenerationRequest rest;  // of the request, for the next engine
};

FirstLife compute_prompt(const Replica& at,
                         GenerationRequest r,
                         std::chrono::milliseconds lease = 30s) {
  FirstLife out;
  out.sink = std::make_shared<Recorder>(r.progress);
  out.rest = r;
  r.context_only = lease;
  const Status status = at.engine->submit(r, out.sink);
  EXPECT_TRUE(status.ok()) << status.message();
  out.sink->wait_final();
  const TokenEvent last = out.sink->final_event();
  EXPECT_TRUE(last.status.ok()) << last.status.message();
  EXPECT_EQ(out.sink->n_tokens(), 1U);
  EXPECT_NE(last.finish.has_value(), last.parked != nullptr);
  out.parked = last.parked;
  out.rest.progress.ids.push_back(out.sink->ids().at(0));
  out.rest.progress.cumulative_logprob = last.cumulative_logprob;
  return out;
}

struct SecondLife {
  std::shared_ptr<Recorder> sink;
  HandoverResult result = {};
};

SecondLife go_on(HandoverService& service,
                 const Replica& from,
                 const Replica& to,
                 FirstLife& first) {
  SecondLife out{.sink = std::make_shared<Recorder>(first.rest.progress)};
  std::promise<HandoverResult> promise;
  service.start({.from = from.engine.get(),
                 .to = to.engine.get(),
                 .parked = first.parked,
                 .request = first.rest,
                 .sink = out.sink},
                [&](HandoverResult result) { promise.set_value(std::move(result)); });
  out.result = promise.get_future().get();
  if (out.result.status.ok()) out.sink->wait_final();
  return out;
}

// Both lives together are what the request yields alone.
void expect_whole(const FakeRunnerOptions& fake,
                  const GenerationRequest& r,
                  const FirstLife& first,
                  const SecondLife& second) {
  const ExpectedOutput expected = expected_output(fake, r);
  std::vector<OutputToken> tokens = first.sink->tokens();
  for (OutputToken& token : second.sink->tokens()) tokens.push_back(token);
  ASSERT_EQ(tokens.size(), expected.tokens.size());
  double cumulative = 0.0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i].id, expected.tokens[i]);
    EXPECT_EQ(tokens[i].logprob, expected.logprobs[i]);
    cumulative += static_cast<double>(tokens[i].logprob);
  }
  const TokenEvent last = second.sink->final_event();
  ASSERT_TRUE(last.status.ok()) << last.status.message();
  EXPECT_EQ(last.n_generated, expected.tokens.size());
  EXPECT_EQ(last.cumulative_logprob, cumulative);
  EXPECT_EQ(last.finish->reason, expected.reason);
  if (!r.prompt_logprobs) return;
  EXPECT_EQ(first.sink->prompt().size(), r.prompt.size());
  EXPECT_TRUE(second.sink->prompt().empty());
}

class Handover : public ::testing::TestWithParam<std::vector<std::uint32_t>> {};

TEST_P(Handover, GoesOnBehindWhatHasMoved) {
  FakeRunnerOptions fake = fake_options(GetParam());
  for (const std::uint32_t n_sinks : {0U, 6U}) {
    fake.sink_tokens = n_sinks;
    const Replica from(fake);
    const Replica to(fake);
    HandoverService service;
    for (std::uint64_t id = 1; id <= 5; ++id) {
      GenerationRequest r = request(80 + id, 20, id);
      r.sampling.do_sample = id % 2 == 0;
      r.sampling.seed = id;
      r.prompt_logprobs = id == 3;
      r.adapter_digest = id == 4 ? "adapter" : "";
      if (id == 5) {
        const ExpectedOutput all = expected_output(fake, r);
        r.progress.ids.assign(all.tokens.begin(), all.tokens.begin() + 2);
        for (std::size_t i = 0; i < 2; ++i)
          r.progress.cumulative_logprob += static_cast<double>(all.logprobs[i]);
      }
      FirstLife first = compute_prompt(from, r);
      ASSERT_NE(first.parked, nullptr);
      const SecondLife second = go_on(service, from, to, first);
      ASSERT_TRUE(second.result.status.ok()) << second.result.status.message();
      EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
      EXPECT_GT(second.result.n_bytes, 0U);
      const std::uint32_t n_moved = (80 + static_cast<std::uint32_t>(id)) / 4 * 4;
      EXPECT_EQ(second.sink->final_event().n_cached_prompt_tokens, n_moved);
      if (id < 5) expect_whole(fake, r, first, second);
    }
    EXPECT_EQ(service.stats().n_moved, 5U);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups,
                         Handover,
                         ::testing::Values(std::vector<std::uint32_t>{0},
                                           std::vector<std::uint32_t>{0, 24},
                                           std::vector<std::uint32_t>{24, 10}));

TEST(HandoverCases, WhatTheDestinationHasDoesNotMove) {
  const FakeRunnerOptions fake = fake_options();
  const Replica from(fake);
  const Replica to(fake);
  HandoverService service;
  const GenerationRequest r = request(90, 10);
  FirstLife first = compute_prompt(from, r);
  expect_whole(fake, r, first, go_on(service, from, to, first));
  first = compute_prompt(from, r);
  const SecondLife again = go_on(service, from, to, first);
  EXPECT_TRUE(again.result.moved);
  EXPECT_EQ(again.result.n_pieces, 0U);
  expect_whole(fake, r, first, again);
}

TEST(HandoverCases, AFirstTokenThatEndsTheRequestParksNothing) {
  const Replica from(fake_options());
  const FirstLife first = compute_prompt(from, request(30, 1));
  EXPECT_EQ(first.parked, nullptr);
  EXPECT_EQ(first.sink->finish()->reason, FinishReason::kLength);
}

TEST(HandoverCases, InTheSameEngineNothingMoves) {
  const FakeRunnerOptions fake = fake_options();
  const Replica one(fake);
  HandoverService service;
  const GenerationRequest r = request(50, 10);
  FirstLife first = compute_prompt(one, r);
  const SecondLife second = go_on(service, one, one, first);
  EXPECT_TRUE(second.result.moved);
  EXPECT_EQ(second.result.n_bytes, 0U);
  EXPECT_EQ(second.sink->final_event().n_cached_prompt_tokens, 48U);
  expect_whole(fake, r, first, second);
}

// Each of these is why blocks do not move, and the tokens are the same.
TEST(HandoverCases, WhereBlocksCannotMoveThePromptIsComputedAgain) {
  const FakeRunnerOptions fake = fake_options();
  const Replica from(fake);
  HandoverService service;
  std::uint64_t id = 1;
  const auto expect_again = [&](const Replica& to, Code why, auto change) {
    const GenerationRequest r = request(90, 12, id++);
    FirstLife first = compute_prompt(from, r);
    change(first);
    const SecondLife second = go_on(service, from, to, first);
    EXPECT_TRUE(second.result.status.ok()) << second.result.status.message();
    EXPECT_FALSE(second.result.moved);
    EXPECT_EQ(second.result.why_not.code(), why) << second.result.why_not.message();
    expect_whole(fake, r, first, second);
    from.wait_for_no_leases();
  };
  const auto as_it_is = [](FirstLife&) {};
  FakeRunnerOptions other = fake;
  other.about.kernel_set_id = "other";
  expect_again(Replica(other), Code::kFailedPrecondition, as_it_is);
  other = fake;
  other.capabilities.attachment_bytes_max /= 2;
  expect_again(Replica(other), Code::kUnimplemented, as_it_is);
  const Replica to(fake);
  expect_again(to, Code::kInvalidArgument, [](FirstLife& first) {  // of another request
    auto parked = std::make_shared<ParkedContext>(*first.parked);
    ++parked->digest;
    first.parked = parked;
  });
  expect_again(to, Code::kUnavailable, [](FirstLife& first) {  // of another runner's time
    auto parked = std::make_shared<ParkedContext>(*first.parked);
    ++parked->incarnation;
    first.parked = parked;
  });
  expect_again(to, Code::kUnimplemented, [&](FirstLife& first) {  // nothing was kept
    release_parked(*from.engine, *first.parked);
    first.parked = std::make_shared<ParkedContext>();
  });
}

TEST(HandoverCases, NoRoomAtTheDestination) {
  const FakeRunnerOptions fake = fake_options();
  const FakeRunnerOptions small = fake_options({0}, 27);
  const Replica from(fake);
  const Replica to(small);
  HandoverService service;
  const GenerationRequest r = request(80, 20);
  FirstLife first = compute_prompt(from, r);
  FirstLife parked_there = compute_prompt(to, request(80, 20, 2));  // holds 20 of 26 blocks
  SecondLife second{.sink = std::make_shared<Recorder>(first.rest.progress)};
  std::promise<HandoverResult> promise;
  service.start({.from = from.engine.get(),
                 .to = to.engine.get(),
                 .parked = first.parked,
                 .request = first.rest,
                 .sink = second.sink},
                [&](HandoverResult result) { promise.set_value(std::move(result)); });
  second.result = promise.get_future().get();
  EXPECT_EQ(second.result.why_not.code(), Code::kResourceExhausted);
  release_parked(*to.engine, *parked_there.parked);
  second.sink->wait_final();
  expect_whole(small, r, first, second);
}

TEST(HandoverCases, ADestinationThatDrainsLeavesItToAnother) {
  const FakeRunnerOptions fake = fake_options();
  const Replica from(fake);
  const Replica drains(fake);
  const Replica to(fake);
  ASSERT_TRUE(drains.engine->drain(10s));
  HandoverService service;
  const GenerationRequest r = request(90, 12);
  FirstLife first = compute_prompt(from, r);
  const SecondLife refused = go_on(service, from, drains, first);
  EXPECT_EQ(refused.result.status.code(), Code::kUnavailable);
  EXPECT_FALSE(refused.sink->done());
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
  expect_whole(fake, r, first, second);
}

TEST(HandoverCases, WhatNobodyFetchesIsGivenBack) {
  const FakeRunnerOptions fake = fake_options();
  const Replica from(fake);
  const Replica to(fake);
  HandoverService service;
  const GenerationRequest r = request(90, 12);
  FirstLife first = compute_prompt(from, r, 1ms);
  from.wait_for_no_leases();
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_FALSE(second.result.moved);
  expect_whole(fake, r, first, second);
}

// Each side has more pieces on their way to the other one than either has room for, and the limit never comes.
TEST(HandoverCases, ThoseThatGoBothWaysDoNotWaitForEachOther) {
  const FakeRunnerOptions fake = fake_options({0}, 257);
  const Replica one(fake);
  const Replica other(fake);
  struct Crossing {
    GenerationRequest request;
    FirstLife first;
    SecondLife second;
    std::promise<HandoverResult> result;
  };
  std::vector<Crossing> all(8);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].request = request(90, 12, i);
    all[i].first = compute_prompt(i % 2 == 0 ? one : other, all[i].request);
    all[i].second.sink = std::make_shared<Recorder>(all[i].first.rest.progress);
  }
  HandoverService service({.timeout = 1h});
  for (std::size_t i = 0; i < all.size(); ++i) {
    service.start({.from = (i % 2 == 0 ? one : other).engine.get(),
                   .to = (i % 2 == 0 ? other : one).engine.get(),
                   .parked = all[i].first.parked,
                   .request = all[i].first.rest,
                   .sink = all[i].second.sink},
                  [&result = all[i].result](HandoverResult r) { result.set_value(std::move(r)); });
  }
  for (Crossing& each : all) {
    each.second.result = each.result.get_future().get();
    EXPECT_TRUE(each.second.result.moved) << each.second.result.why_not.message();
    EXPECT_GT(each.second.result.n_pieces, 1U);
    each.second.sink->wait_final();
    expect_whole(fake, each.request, each.first, each.second);
  }
}

// What happens when the bytes of a piece pass.
class FaultyTransport final : public BlockTransport {
 public:
  using Fault = std::function<Status(const BlockPassage& passage)>;
  explicit FaultyTransport(Fault fault) : fault_(std::move(fault)) {}

  std::string_view name() const override { return "faulty"; }
  Result<std::uint64_t> pass(const BlockPassage& passage) override {
    if (Status status = fault_(passage); !status.ok()) {
      static_cast<void>(passage.from->take(passage.made));
      return status;
    }
    return inner_.pass(passage);
  }

 private:
  const Fault fault_;
  RouterTransport inner_;
};

enum class What {
  kTransport,
  kBytes,
  kSourceStep,
  kDestinationStep,
  kSourceLost,
  kDestinationLost
};

void replace_runner(Replica& replica, FakeRunnerOptions fake) {
  fake.epoch = 2;
  replica.runner = std::make_shared<FakeRunner>(fake);
  replica.engine->replace_runner(replica.runner);
}

// Something goes wrong while the bytes of a piece are about to pass.
Status fault(What what, Replica& from, Replica& to, const BlockPassage& passage) {
  const FakeRunnerOptions fake = fake_options();
  switch (what) {
    case What::kTransport:
      return {Code::kUnavailable, "told to fail"};
    case What::kBytes: {
      Attachment taken = passage.from->take(passage.made).value();
      taken.id = passage.as;
      taken.bytes.back() = static_cast<char>(taken.bytes.back() ^ 1);
      return passage.to->attach(std::move(taken));
    }
    case What::kSourceStep:
      from.runner->fail_next({Code::kInternal, "told to fail"});
      break;
    case What::kDestinationStep:
      to.runner->fail_next({Code::kInternal, "told to fail"});
      break;
    case What::kSourceLost:
      replace_runner(from, fake);
      break;
    case What::kDestinationLost:
      replace_runner(to, fake);
      break;
  }
  return {};
}

void expect_same_after_fault(What what, int at) {
  const FakeRunnerOptions fake = fake_options();
  Replica from(fake);
  Replica to(fake);
  int n = 0;
  HandoverService service(
      {}, std::make_unique<FaultyTransport>([&](const BlockPassage& passage) -> Status {
        return n++ == at ? fault(what, from, to, passage) : Status();
      }));
  const GenerationRequest r = request(220, 12);
  FirstLife first = compute_prompt(from, r);
  ASSERT_GT(first.parked->n_blocks, 2 * first.parked->piece_blocks);
  const SecondLife second = go_on(service, from, to, first);
  ASSERT_TRUE(second.result.status.ok()) << second.result.status.message();
  EXPECT_FALSE(second.result.moved);
  expect_whole(fake, r, first, second);
}

TEST(HandoverFaults, WherePiecesFailThePromptIsComputedAgain) {
  for (const What what : {What::kTransport,
                          What::kBytes,
                          What::kSourceStep,
                          What::kDestinationStep,
                          What::kSourceLost,
                          What::kDestinationLost}) {
    for (int at = 0; at < 3; ++at) {
      SCOPED_TRACE(std::to_string(static_cast<int>(what)) + " at piece " + std::to_string(at));
      expect_same_after_fault(what, at);
    }
  }
}

TEST(HandoverFaults, AHungTransferIsGivenUp) {
  const FakeRunnerOptions fake = fake_options();
  const Replica from(fake);
  const Replica to(fake);
  const GenerationRequest r = request(90, 12);
  FirstLife first = compute_prompt(from, r);
  HandoverService service({.timeout = 20ms});
  from.runner->hold();
  SecondLife second{.sink = std::make_shared<Recorder>(first.rest.progress)};
  std::promise<HandoverResult> promise;
  service.start({.from = from.engine.get(),
                 .to = to.engine.get(),
                 .parked = first.parked,
                 .request = first.rest,
                 .sink = second.sink},
                [&](HandoverResult result) { promise.set_value(std::move(result)); });
  second.result = promise.get_future().get();
  EXPECT_EQ(second.result.why_not.code(), Code::kDeadlineExceeded);
  second.sink->wait_final();
  expect_whole(fake, r, first, second);
  from.runner->release();
}

TEST(HandoverFaults, ACancelledOneIsSubmittedToNobody) {
  const FakeRunnerOptions fake = fake_options();
  const Replica from(fake);
  const Replica to(fake);
  FirstLife first = compute_prompt(from, request(90, 12));
  HandoverService* door = nullptr;
  std::atomic<std::uint64_t> number = 0;
  HandoverService service({}, std::make_unique<FaultyTransport>([&](const BlockPassage&) {
                            door->cancel(number);
                            return Status();
                          }));
  door = &service;
  auto sink = std::make_shared<Recorder>(first.rest.progress);
  std::promise<HandoverResult> promise;
  from.runner->hold();  // so that the number is known before anything passes
  number = service.start({.from = from.engine.get(),
                          .to = to.engine.get(),
                          .parked = first.parked,
                          .request = first.rest,
                          .sink = sink},
                         [&](HandoverResult result) { promise.set_value(std::move(result)); });
  from.runner->release();
  const HandoverResult result = promise.get_future().get();
  EXPECT_EQ(result.status.code(), Code::kCancelled);
  EXPECT_FALSE(sink->done());
  EXPECT_EQ(to.engine->stats().accepted, 0U);
  from.wait_for_no_leases();
}

TEST(HandoverFaults, AServiceThatEndsLeavesNothingBehind) {
  const FakeRunnerOptions fake = fake_options();
  const Replica from(fake);
  const Replica to(fake);
  std::vector<FirstLife> first;
  std::vector<std::shared_ptr<Recorder>> sinks;
  std::atomic<int> n_done = 0;
  {
    HandoverService service;
    for (std::uint64_t id = 1; id <= 6; ++id) {
      first.push_back(compute_prompt(from, request(20 + id, 6, id)));
      sinks.push_back(std::make_shared<Recorder>(first.back().rest.progress));
      service.start({.from = from.engine.get(),
                     .to = to.engine.get(),
                     .parked = first.back().parked,
                     .request = first.back().rest,
                     .sink = sinks.back()},
                    [&n_done, sink = sinks.back()](const HandoverResult& result) {
                      if (result.status.ok()) sink->wait_final();
                      ++n_done;
                    });
    }
  }
  EXPECT_EQ(n_done, 6);
  for (const FirstLife& each : first) release_parked(*from.engine, *each.parked);
}

TEST(HandoverCases, SiblingsAndStockRunnersAreRefusedByName) {
  testing::CoreDriver d(fake_options());
  GenerationRequest r = request(20, 5);
  r.context_only = 1s;
  r.more_seeds = {7};
  EXPECT_EQ(d.add(r), nullptr);
  EXPECT_EQ(d.status.field(), kContextOnlyField);
  FakeRunnerOptions stock;
  stock.capabilities = {};
  testing::CoreDriver text(stock);
  r.more_seeds.clear();
  EXPECT_EQ(text.add(r), nullptr);
  EXPECT_EQ(text.status.code(), Code::kFailedPrecondition);
}

// ---- all at once ----

struct Client {
  GenerationRequest request;
  FirstLife first;
  std::shared_ptr<Recorder> sink;
  std::promise<HandoverResult> promise;
  std::future<HandoverResult> result = promise.get_future();
};

// Three engines, requests that wander from each to each, pieces that fail, short leases and little room.
TEST(HandoverRandom, EveryRequestIsAnsweredOnceWithItsTokens) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const FakeRunnerOptions fake =
        seed % 2 == 0 ? fake_options({0, 24}, 70) : fake_options({0}, 50);
    std::vector<std::unique_ptr<Replica>> replicas;
    replicas.reserve(3);
    for (int i = 0; i < 3; ++i) replicas.push_back(std::make_unique<Replica>(fake));
    RequestMaker make(seed);
    std::atomic<std::uint64_t> n_passed = 0;
    HandoverService service({.timeout = 2s},
                            std::make_unique<FaultyTransport>([&](const BlockPassage&) -> Status {
                              if (++n_passed % 9 == 0) return {Code::kUnavailable, "told to fail"};
                              return {};
                            }));
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 40; ++i) {
      auto client = std::make_unique<Client>();
      client->request = make.make(90, 30);
      client->request.priority = 0;
      const std::size_t a = make.pick(3);
      const std::size_t b = make.pick(3);
      const auto lease = make.pick(6) == 0 ? 1ms : 20'000ms;
      client->first = compute_prompt(*replicas[a], client->request, lease);
      clients.push_back(std::move(client));
      Client& c = *clients.back();
      if (c.first.parked == nullptr) continue;
      c.sink = std::make_shared<Recorder>(c.first.rest.progress);
      service.start({.from = replicas[a]->engine.get(),
                     .to = replicas[b]->engine.get(),
                     .parked = c.first.parked,
                     .request = c.first.rest,
                     .sink = c.sink},
                    [&c](HandoverResult result) { c.promise.set_value(std::move(result)); });
    }
    std::size_t n_moved = 0;
    for (const auto& c : clients) {
      if (c->first.parked == nullptr) continue;
      const SecondLife second{.sink = c->sink, .result = c->result.get()};
      ASSERT_TRUE(second.result.status.ok()) << second.result.status.message();
      n_moved += second.result.moved ? 1 : 0;
      c->sink->wait_final();
      expect_whole(fake, c->request, c->first, second);
    }
    EXPECT_GT(n_moved, 5U);
  }
}

}  // namespace
}  // namespace coxswain::batch
