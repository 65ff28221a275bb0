#pragma once
// A request whose prompt one replica computes and that goes on in another: its two lives, and that both together are
// what it yields alone.
//
// Thread rule: one thread; it waits for both engines.

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "batch/handover.h"
#include "batch/testing/recorder.h"
#include "batch/testing/replica.h"

namespace coxswain::batch::testing {

inline GenerationRequest handover_request(std::size_t n_prompt,
                                          std::uint32_t n_new,
                                          std::uint64_t id = 1) {
  GenerationRequest out;
  out.id = RequestId{id};
  for (std::size_t i = 0; i < n_prompt; ++i)
    out.prompt.push_back(static_cast<TokenId>((i * 7 + 3 + id) % 50));
  out.stopping.max_new_tokens = n_new;
  return out;
}

struct FirstLife {
  std::shared_ptr<Recorder> sink = std::make_shared<Recorder>();
  std::shared_ptr<const ParkedContext> parked;
  GenerationRequest rest;  // of the request, for the next engine
};

inline FirstLife compute_prompt(const Replica& at,
                                GenerationRequest r,
                                std::chrono::milliseconds lease = std::chrono::seconds(30)) {
  FirstLife out;
  out.sink = std::make_shared<Recorder>(r.progress);
  out.rest = r;
  out.rest.on_blocks_ahead = {};
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

// Of a prompt in chunks, for compute_prompt(): what is told before its first token. Read behind that.
struct Fronts {
  std::vector<std::shared_ptr<const ParkedContext>> told = {};

  void listen(GenerationRequest& r) {
    r.on_blocks_ahead = [this](std::shared_ptr<const ParkedContext> front) {
      told.push_back(std::move(front));
    };
  }
};

inline HandoverResult pass_ahead(HandoverService& service,
                                 const Replica& from,
                                 const Replica& to,
                                 const std::shared_ptr<const ParkedContext>& front,
                                 const GenerationRequest& r) {
  std::promise<HandoverResult> promise;
  service.start({.from = from.engine.get(),
                 .to = to.engine.get(),
                 .parked = front,
                 .request = r,
                 .ahead = true},
                [&](HandoverResult result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

struct SecondLife {
  std::shared_ptr<Recorder> sink;
  HandoverResult result = {};
};

// Until its result is there; tokens may still come.
inline SecondLife hand_over(HandoverService& service,
                            const Replica& from,
                            const Replica& to,
                            const FirstLife& first) {
  SecondLife out{.sink = std::make_shared<Recorder>(first.rest.progress)};
  std::promise<HandoverResult> promise;
  service.start({.from = from.engine.get(),
                 .to = to.engine.get(),
                 .parked = first.parked,
                 .request = first.rest,
                 .sink = out.sink},
                [&](HandoverResult result) { promise.set_value(std::move(result)); });
  out.result = promise.get_future().get();
  return out;
}

inline SecondLife go_on(HandoverService& service,
                        const Replica& from,
                        const Replica& to,
                        const FirstLife& first) {
  SecondLife out = hand_over(service, from, to, first);
  if (out.result.status.ok()) out.sink->wait_final();
  return out;
}

// Both lives together are what the request yields alone.
inline void expect_whole(const FakeRunnerOptions& fake,
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

}  // namespace coxswain::batch::testing
