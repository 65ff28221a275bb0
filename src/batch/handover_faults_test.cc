// Hand-overs in which something goes wrong, one at a time and all at once: tokens are those of the undisturbed request,
// and in the end nobody holds a block.

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "batch/handover.h"
#include "batch/testing/core_driver.h"
#include "batch/testing/handover_lives.h"

namespace coxswain::batch {
namespace {

using testing::compute_prompt;
using testing::expect_whole;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::FirstLife;
using testing::Fronts;
using testing::go_on;
using testing::hand_over;
using testing::handover_fake;
using testing::handover_request;
using testing::pass_ahead;
using testing::Recorder;
using testing::Replica;
using testing::RequestMaker;
using testing::SecondLife;
using namespace std::chrono_literals;

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
Status fault(What what,
             const FakeRunnerOptions& fake,
             Replica& from,
             Replica& to,
             const BlockPassage& passage) {
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
      from.runner->fail_next_transfer({Code::kInternal, "told to fail"});
      break;
    case What::kDestinationStep:
      to.runner->fail_next_transfer({Code::kInternal, "told to fail"});
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

// In pieces of so many attachments; with a fault in what passes ahead, or in the hand-over.
void expect_same_after_fault(What what, int at, std::uint32_t n_attachments, bool ahead) {
  FakeRunnerOptions fake = handover_fake();
  fake.capabilities.exports_beside = at != 1;
  fake.capabilities.attachment_bytes_max = 20 << 10;  // small pieces
  Replica from(fake, {.prefill_tokens_max = 200});
  Replica to(fake);
  int n = 0;
  HandoverService service(
      {}, std::make_unique<FaultyTransport>([&](const BlockPassage& passage) -> Status {
        return n++ == at ? fault(what, fake, from, to, passage) : Status();
      }));
  const auto divided = [&](const std::shared_ptr<const ParkedContext>& parked) {
    auto out = std::make_shared<ParkedContext>(*parked);
    if (n_attachments > 1) out->piece_blocks = 2;
    out->attachments_max = n_attachments;
    return out;
  };
  GenerationRequest r = handover_request(220, 12);
  Fronts fronts;
  if (ahead) fronts.listen(r);
  FirstLife first = compute_prompt(from, r);
  // The source is ahead by a piece, and is to have one more to make.
  EXPECT_GT(first.parked->n_blocks, 4 * first.parked->piece_blocks);
  if (ahead) {
    ASSERT_EQ(fronts.told.size(), 1U);
    EXPECT_FALSE(pass_ahead(service, from, to, divided(fronts.told[0]), first.rest).status.ok());
  } else {
    first.parked = divided(first.parked);
  }
  const SecondLife second = go_on(service, from, to, first);
  ASSERT_TRUE(second.result.status.ok()) << second.result.status.message();
  EXPECT_EQ(second.result.moved, ahead && what != What::kSourceLost);
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
      for (const std::uint32_t n_attachments : {1U, 4U})
        for (const bool ahead : {false, true})
          expect_same_after_fault(what, at, n_attachments, ahead);
    }
  }
}

TEST(HandoverFaults, AHungTransferIsGivenUp) {
  for (const bool beside : {false, true}) {
    FakeRunnerOptions fake = handover_fake();
    fake.capabilities.exports_beside = beside;
    const Replica from(fake);
    const Replica to(fake);
    const GenerationRequest r = handover_request(90, 12);
    const FirstLife first = compute_prompt(from, r);
    HandoverService service({.timeout = 20ms});
    std::promise<void> goes_on;
    if (beside) {
      from.runner->on_attachment = [hangs = goes_on.get_future().share()] { hangs.wait(); };
    } else {
      from.runner->hold();
    }
    const SecondLife second = hand_over(service, from, to, first);
    EXPECT_EQ(second.result.why_not.code(), Code::kDeadlineExceeded);
    second.sink->wait_final();
    expect_whole(fake, r, first, second);
    // What is made late lies in blocks that nobody has written meanwhile, and nobody keeps it.
    if (beside) {
      EXPECT_GT(from.engine->stats().blocks_leased, 0U);
      EXPECT_TRUE(first.parked->slots->try_take());
      EXPECT_FALSE(first.parked->slots->try_take()) << "the other one is the late export's";
      first.parked->slots->give();
    }
    goes_on.set_value();
    from.runner->release();
  }
}

TEST(HandoverFaults, WhatHangsAheadIsGivenUpWhenItIsToldTo) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake, {.prefill_tokens_max = 16});
  const Replica to(fake);
  GenerationRequest r = handover_request(90, 12);
  Fronts fronts;
  fronts.listen(r);
  const FirstLife first = compute_prompt(from, r);
  ASSERT_EQ(fronts.told.size(), 1U);
  HandoverService service({.timeout = 1ms});  // of hand-overs alone
  from.runner->hold();
  std::promise<HandoverResult> ahead;
  const std::uint64_t number =
      service.start({.from = from.engine.get(),
                     .to = to.engine.get(),
                     .parked = fronts.told[0],
                     .request = first.rest,
                     .ahead = true},
                    [&](HandoverResult result) { ahead.set_value(std::move(result)); });
  service.limit(number, Clock::now());
  const HandoverResult result = ahead.get_future().get();
  EXPECT_EQ(result.status.code(), Code::kDeadlineExceeded) << result.status.message();
  from.runner->release();
  release_parked(*from.engine, *first.parked);
}

TEST(HandoverFaults, NoOtherOneWaitsForBytesThatDoNotCome) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica gone(fake);
  const Replica there(fake);
  const Replica to(fake);
  FirstLife stuck = compute_prompt(gone, handover_request(90, 12, 1));
  const GenerationRequest r = handover_request(90, 12, 2);
  FirstLife first = compute_prompt(there, r);
  std::promise<void> waits;
  std::promise<void> ends;
  HandoverService service(
      {}, std::make_unique<FaultyTransport>([&](const BlockPassage& passage) -> Status {
        if (passage.from != gone.runner.get()) return {};
        waits.set_value();
        ends.get_future().wait();
        return {Code::kUnavailable, "told to fail"};
      }));
  auto sink = std::make_shared<Recorder>(stuck.rest.progress);
  std::promise<HandoverResult> result;
  service.start({.from = gone.engine.get(),
                 .to = to.engine.get(),
                 .parked = stuck.parked,
                 .request = stuck.rest,
                 .sink = sink},
                [&](HandoverResult each) { result.set_value(std::move(each)); });
  waits.get_future().wait();
  const SecondLife second = go_on(service, there, to, first);
  EXPECT_TRUE(second.result.moved);
  expect_whole(fake, r, first, second);
  ends.set_value();
  EXPECT_FALSE(result.get_future().get().moved);
  sink->wait_final();
}

// The bytes of the first `n` passages have left, and arrive behind go(): as where a machine hangs and comes back.
class HungTransport final : public BlockTransport {
 public:
  explicit HungTransport(int n) : n_left_(n) {}

  void go() { go_->set_value(); }
  // go() for whoever may outlive this.
  std::function<void()> opener() const {
    return [go = go_] { go->set_value(); };
  }
  int n_hung() const { return n_hung_; }
  std::string_view name() const override { return "hung"; }
  Result<std::uint64_t> pass(const BlockPassage& passage) override {
    if (n_left_-- <= 0) return inner_.pass(passage);
    COXSWAIN_ASSIGN_OR_RETURN(Attachment taken, passage.from->take(passage.made));
    taken.id = passage.as;
    const std::uint64_t n_bytes = taken.bytes.size();
    ++n_hung_;
    gone_.wait();
    COXSWAIN_RETURN_IF_ERROR(passage.to->attach(std::move(taken)));
    return n_bytes;
  }

 private:
  std::atomic<int> n_left_;
  std::atomic<int> n_hung_ = 0;
  const std::shared_ptr<std::promise<void>> go_ = std::make_shared<std::promise<void>>();
  std::shared_future<void> gone_ = go_->get_future().share();
  RouterTransport inner_;
};

TEST(HandoverFaults, BytesThatDoNotComeInTimeKeepNoRequest) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  const Replica to(fake);
  auto transport = std::make_unique<HungTransport>(2);
  HungTransport& hung = *transport;
  HandoverService service({.timeout = 60s, .passage_timeout = 20ms}, std::move(transport));
  for (std::uint64_t id = 1; id <= 2; ++id) {  // as many as there are slots
    const GenerationRequest r = handover_request(90, 12, id);
    FirstLife first = compute_prompt(from, r);
    const SecondLife second = go_on(service, from, to, first);
    EXPECT_FALSE(second.result.moved);
    EXPECT_EQ(second.result.why_not.code(), Code::kDeadlineExceeded);
    expect_whole(fake, r, first, second);
  }
  EXPECT_EQ(hung.n_hung(), 2);
  EXPECT_EQ(service.stats().n_running, 0U);
  hung.go();
  // The slots are there again, and what came after all is not (Replica).
  const GenerationRequest r = handover_request(90, 12, 3);
  FirstLife first = compute_prompt(from, r);
  const SecondLife second = go_on(service, from, to, first);
  EXPECT_TRUE(second.result.moved) << second.result.why_not.message();
  expect_whole(fake, r, first, second);
}

TEST(HandoverFaults, BytesThatHangAheadAreLeftWhenTheyAreToldTo) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake, {.prefill_tokens_max = 16});
  const Replica to(fake);
  GenerationRequest r = handover_request(90, 12);
  Fronts fronts;
  fronts.listen(r);
  const FirstLife first = compute_prompt(from, r);
  ASSERT_EQ(fronts.told.size(), 1U);
  auto transport = std::make_unique<HungTransport>(1);
  HungTransport& hung = *transport;
  HandoverService service({.passage_timeout = 1h}, std::move(transport));
  std::promise<HandoverResult> ahead;
  const std::uint64_t number =
      service.start({.from = from.engine.get(),
                     .to = to.engine.get(),
                     .parked = fronts.told[0],
                     .request = first.rest,
                     .ahead = true},
                    [&](HandoverResult result) { ahead.set_value(std::move(result)); });
  while (hung.n_hung() == 0) std::this_thread::sleep_for(1ms);
  service.limit(number, Clock::now());
  EXPECT_EQ(ahead.get_future().get().status.code(), Code::kDeadlineExceeded);
  to.wait_for_no_leases();
  hung.go();
  release_parked(*from.engine, *first.parked);
}

// It waits for what it no longer asks for, and that is forgotten, whether or not it comes before the end.
TEST(HandoverFaults, AServiceThatEndsForgetsWhatComesLate) {
  for (int i = 0; i < 20; ++i) {
    const FakeRunnerOptions fake = handover_fake();
    const Replica from(fake);
    const Replica to(fake);
    const GenerationRequest r = handover_request(90, 12);
    FirstLife first = compute_prompt(from, r);
    auto transport = std::make_unique<HungTransport>(1);
    const auto go = transport->opener();
    auto service = std::make_unique<HandoverService>(HandoverOptions{.passage_timeout = 1ms},
                                                     std::move(transport));
    const SecondLife second = go_on(*service, from, to, first);
    EXPECT_FALSE(second.result.moved);
    expect_whole(fake, r, first, second);
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * 20));
      go();
    });
    service.reset();
    later.join();
  }
}

TEST(HandoverFaults, ACancelledOneIsSubmittedToNobody) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  const Replica to(fake);
  FirstLife first = compute_prompt(from, handover_request(90, 12));
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

TEST(HandoverFaults, WhatIsCancelledAheadLeavesNothing) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake, {.prefill_tokens_max = 16});
  const Replica to(fake);
  GenerationRequest r = handover_request(90, 12);
  Fronts fronts;
  fronts.listen(r);
  const FirstLife first = compute_prompt(from, r);
  release_parked(*from.engine, *first.parked);
  HandoverService* door = nullptr;
  std::atomic<std::uint64_t> number = 0;
  HandoverService service({}, std::make_unique<FaultyTransport>([&](const BlockPassage&) {
                            door->cancel(number);
                            return Status();
                          }));
  door = &service;
  from.runner->hold();  // so that the number is known before anything passes
  std::vector<std::promise<HandoverResult>> results(fronts.told.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    number = service.start(
        {.from = from.engine.get(),
         .to = to.engine.get(),
         .parked = fronts.told[i],
         .request = first.rest,
         .ahead = true},
        [&result = results[i]](HandoverResult each) { result.set_value(std::move(each)); });
  from.runner->release();
  for (auto& result : results) result.get_future().wait();
  from.wait_for_no_leases();
  to.wait_for_no_leases();
  EXPECT_EQ(to.engine->stats().accepted, 0U);
}

TEST(HandoverFaults, AServiceThatEndsLeavesNothingBehind) {
  const FakeRunnerOptions fake = handover_fake();
  const Replica from(fake);
  const Replica to(fake);
  std::vector<FirstLife> first;
  std::vector<std::shared_ptr<Recorder>> sinks;
  std::atomic<int> n_done = 0;
  {
    HandoverService service;
    for (std::uint64_t id = 1; id <= 6; ++id) {
      first.push_back(compute_prompt(from, handover_request(20 + id, 6, id)));
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

struct Client {
  GenerationRequest request;
  FirstLife first;
  std::shared_ptr<Recorder> sink;
  std::promise<HandoverResult> promise;
  std::future<HandoverResult> result = promise.get_future();
};

// Blocks of `request` pass from the one to the other while it is computed.
void let_pass_ahead(HandoverService& service,
                    Engine& from,
                    Engine& to,
                    GenerationRequest& request) {
  request.on_blocks_ahead = [&service, &from, &to, plain = request](auto front) {
    service.start({.from = &from, .to = &to, .parked = front, .request = plain, .ahead = true},
                  [](const HandoverResult&) {});
  };
}

// Three engines, requests that wander from each to each, pieces that fail or come late, short leases and little room.
TEST(HandoverRandom, EveryRequestIsAnsweredOnceWithItsTokens) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FakeRunnerOptions fake = seed % 2 == 0 ? handover_fake({0, 24}, 70) : handover_fake({0}, 50);
    fake.capabilities.exports_beside = seed % 3 != 0;
    std::vector<std::unique_ptr<Replica>> replicas;
    replicas.reserve(3);
    for (int i = 0; i < 3; ++i)
      replicas.push_back(std::make_unique<Replica>(fake, EngineOptions{.prefill_tokens_max = 24}));
    RequestMaker make(seed);
    std::atomic<std::uint64_t> n_passed = 0;
    HandoverService service(
        {.timeout = 2s, .passage_timeout = 20ms},
        std::make_unique<FaultyTransport>([&](const BlockPassage& passage) -> Status {
          const std::uint64_t n = ++n_passed;
          if (n % 9 == 0) return {Code::kUnavailable, "told to fail"};
          // Nobody waits for it any more, and it passes.
          if (n % 13 == 0) std::this_thread::sleep_until(passage.until + 2ms);
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
      GenerationRequest chunks = client->request;
      if (a != b) let_pass_ahead(service, *replicas[a]->engine, *replicas[b]->engine, chunks);
      client->first = compute_prompt(*replicas[a], chunks, lease);
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
    while (service.stats().n_running > 0) std::this_thread::sleep_for(1ms);
    EXPECT_GT(service.stats().n_bytes_ahead, 0U);
  }
}

}  // namespace
}  // namespace coxswain::batch
