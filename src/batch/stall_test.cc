// Clients that read too slowly: who is asked, and what becomes of their sequences.

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunnerOptions;
using namespace std::chrono_literals;

// Counts how often it is asked.
class AskedSink final : public TokenSink {
 public:
  void on_event(TokenEvent) override {}
  bool stalled() const override {
    ++n_asked;
    return false;
  }
  mutable int n_asked = 0;
};

GenerationRequest request(std::uint64_t id) {
  GenerationRequest r;
  r.id = RequestId{id};
  r.prompt = {1, 2, 3, 4, 5};
  r.stopping = {.max_new_tokens = 30, .stop_sequences = {}, .ignore_eos = true};
  return r;
}

TEST(Stall, WhoHasNeverRunIsNotAsked) {
  CoreDriver d({}, {.batch_size_max = 1});
  auto runs = std::make_shared<AskedSink>();
  auto waits = std::make_shared<AskedSink>();
  d.core->add(request(1), runs, d.now);
  d.core->add(request(2), waits, d.now);
  for (int i = 0; i < 20; ++i) d.turn();
  EXPECT_GE(runs->n_asked, 19);
  EXPECT_EQ(waits->n_asked, 0);
}

TEST(Stall, APausedOneResumesWhenItsClientReadsAgain) {
  FakeRunnerOptions fake;
  fake.n_blocks = {17};  // 64 positions: two do not fit to their end
  CoreDriver d(fake, {.prefill_tokens_max = 16});
  auto other = d.add(request(1));
  auto slow = d.add(request(2));
  for (int i = 0; i < 4; ++i) d.turn();
  slow->set_stalled(true);
  while (!other->done()) d.turn();
  for (int i = 0; i < 20; ++i) d.turn();
  EXPECT_FALSE(slow->done());
  EXPECT_TRUE(d.core->any_stalled());
  slow->set_stalled(false);
  ASSERT_TRUE(d.run());
  EXPECT_FALSE(d.core->any_stalled());
  slow->expect_complete(expected_output(fake, request(2)), false);
}

}  // namespace
}  // namespace coxswain::batch
