// Requests with several sequences (num_return_sequences).

#include <algorithm>
#include <map>
#include <stdexcept>

#include <coxswain/batch_manager.h>

#include "batch/testing/fake_runner.h"
#include "manager/testing/managed.h"
#include "manager/testing/program.h"

namespace coxswain::manager {
namespace {

using batch::testing::expected_output;
using testing::at_the_third_response;
using testing::find;
using testing::Given;
using testing::joined;
using testing::kPrompt;
using testing::make_request;
using testing::Managed;
using testing::number;
using testing::plain_request;
using testing::Reply;

std::shared_ptr<InferenceRequest> make_several(std::uint64_t id,
                                               std::int32_t n,
                                               std::int32_t n_new,
                                               bool streaming = false) {
  auto out = make_request(id, kPrompt, n_new, streaming);
  out->set(NamedTensor::of<std::int32_t>("num_return_sequences", {1}, {n}));
  out->set(NamedTensor::of<std::int32_t>("runtime_top_k", {1}, {10}));
  out->set(NamedTensor::of<std::uint64_t>("random_seed", {1}, {1000 * id}));
  return out;
}

// What sequence `i` of such a request yields: the request alone with its seed.
std::vector<TokenId> expected_of(const Managed& run,
                                 std::uint64_t id,
                                 std::uint32_t i,
                                 std::uint32_t n_new) {
  batch::GenerationRequest alone = plain_request(kPrompt, n_new);
  alone.sampling = {.do_sample = true, .top_k = 10, .seed = 1000 * id + i};
  alone.sampling.penalties_count_prompt = true;
  return expected_output(run.fake, alone).tokens;
}

std::int32_t index_of(const std::vector<NamedTensor>& outputs) {
  const NamedTensor* index = find(outputs, "sequence_index");
  if (index == nullptr) return -1;
  EXPECT_EQ(index->shape, (std::vector<std::int64_t>{1}));
  return index->as<std::int32_t>().front();
}

// The ids of each sequence, all responses behind each other.
std::map<std::int32_t, std::vector<TokenId>> by_sequence(const Reply& reply) {
  std::map<std::int32_t, std::vector<TokenId>> out;
  for (const auto& outputs : reply.responses) {
    const auto ids = find(outputs, "output_ids")->as<std::int32_t>();
    std::vector<TokenId>& all = out[index_of(outputs)];
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return out;
}

TEST(Sequences, EachIsTheRequestAloneWithItsSeed) {
  Managed run;
  run.program.submit(make_several(1, 4, 6));
  run.program.submit(make_several(2, 3, 9, true));
  const Reply whole = run.program.wait(1);
  const Reply stream = run.program.wait(2);
  EXPECT_EQ(whole.responses.size(), 4U);
  EXPECT_EQ(whole.n_final, 1);
  EXPECT_EQ(stream.n_final, 1);
  EXPECT_GT(stream.responses.size(), 3U);
  const auto answers = by_sequence(whole);
  const auto streams = by_sequence(stream);
  ASSERT_EQ(answers.size(), 4U);
  ASSERT_EQ(streams.size(), 3U);
  EXPECT_NE(answers.at(0), answers.at(1));
  for (const auto& [index, ids] : answers)
    EXPECT_EQ(ids, joined(kPrompt, expected_of(run, 1, static_cast<std::uint32_t>(index), 6)));
  for (const auto& [index, ids] : streams)
    EXPECT_EQ(ids, expected_of(run, 2, static_cast<std::uint32_t>(index), 9));
}

// Of a beam search the best ones are rows of one response.
TEST(Sequences, OfBeamsAreTheBestOfThem) {
  Given setup;
  setup.fake.capabilities.edits = setup.fake.capabilities.moves = true;
  setup.fake.capabilities.candidates_max = 64;
  Managed run(setup);
  for (const std::int32_t n : {4, 2}) {
    auto request = make_request(static_cast<std::uint64_t>(n), kPrompt, 7, n == 2);
    request->set(NamedTensor::of<std::int32_t>("beam_width", {1}, {4}));
    request->set(NamedTensor::of<std::int32_t>("num_return_sequences", {1}, {n}));
    run.program.submit(request);
  }
  const Reply all = run.program.wait(4);
  const Reply two = run.program.wait(2);
  ASSERT_EQ(all.error() + two.error(), "");
  ASSERT_EQ(all.responses.size(), 1U);
  EXPECT_EQ(two.n_final, 1);
  const NamedTensor* whole = find(all.responses[0], "output_ids");
  const NamedTensor* best = find(two.responses.back(), "output_ids");
  EXPECT_EQ(whole->shape, (std::vector<std::int64_t>{1, 4, 12}));
  ASSERT_EQ(best->shape, (std::vector<std::int64_t>{1, 2, 7}));
  EXPECT_EQ(find(two.responses.back(), "sequence_index"), nullptr);
  for (std::size_t beam = 0; beam < 2; ++beam) {
    const auto output = whole->as<std::int32_t>().subspan(beam * 12 + 5, 7);
    EXPECT_TRUE(std::ranges::equal(output, best->as<std::int32_t>().subspan(beam * 7, 7)));
  }
}

TEST(Sequences, CountForTheLimitOfRequests) {
  Managed run({.options = {.max_num_requests = 4}}, [](Managed& m) {
    m.program.submit(make_several(1, 3, 5));
    m.program.submit(make_several(2, 5, 5));
  });
  EXPECT_EQ(run.program.wait(2).error(), "`num_return_sequences` must be >= 1 and <= 4. Given: 5");
  EXPECT_EQ(run.program.wait(1).error(), "");
  run.program.wait_asked(run.program.asked().size() + 1);
  run.manager.reset();
  const std::vector<std::int32_t> asked = run.program.asked();
  EXPECT_NE(std::ranges::find(asked, 1), asked.end());
  EXPECT_EQ(asked.back(), 4);
  std::uint64_t most = 0;
  for (const std::string& json : run.program.stats())
    most = std::max(most, number(json, "Active Request Count"));
  EXPECT_EQ(most, 3U);
}

TEST(Sequences, AStopEndsAllWithWhatThereIs) {
  Managed run({}, at_the_third_response(1, [](Managed& m) { m.program.stop(1); }));
  run.program.submit(make_several(1, 2, 200, true));
  const Reply reply = run.program.wait(1);
  EXPECT_EQ(reply.error(), "");
  for (const auto& [index, ids] : by_sequence(reply)) {
    const auto all = expected_of(run, 1, static_cast<std::uint32_t>(index), 200);
    EXPECT_LT(ids.size(), 10U);
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), all.begin()));
  }
}

// The runner fails a prompt's sequences one after the other; the second is in no response any more.
TEST(Sequences, OneThatFailsEndsTheRequestOnce) {
  Managed run;
  run.runner->fail_sequences_starting_with(kPrompt[0]);
  run.program.submit(make_several(1, 3, 50));
  run.program.submit(make_request(2, {2, 3}, 20));
  const Reply reply = run.program.wait(1);
  EXPECT_EQ(reply.error(), "told to fail");
  EXPECT_EQ(reply.n_final, 1);
  EXPECT_EQ(run.program.wait(2).error(), "");
  run.program.submit(make_request(1, {2, 3}, 5));  // its id is free
  EXPECT_EQ(run.program.wait(1, 2).error(), "");
}

TEST(Sequences, AThrowingSendEndsAllOfThem) {
  Managed run({}, [](Managed& m) {
    m.program.on_send = [](std::uint64_t id, bool) {
      if (id == 1) throw std::runtime_error("the client is gone");
    };
  });
  run.program.submit(make_several(1, 3, 200, true));
  run.program.submit(make_request(2, {2, 3}, 100));
  EXPECT_EQ(run.program.wait(2).error(), "");
  run.manager.reset();
  const Reply reply = run.program.reply(1);
  ASSERT_EQ(reply.responses.size(), 2U);
  EXPECT_EQ(reply.errors[1], "send_response has thrown: the client is gone");
}

TEST(Sequences, SurvivePausesUnchanged) {
  Given setup;
  setup.fake.n_blocks = {25};  // 96 positions
  setup.policy = CapacityPolicy::kMaxUtilization;
  Managed run(setup, [](Managed& m) { m.program.submit(make_several(1, 4, 40, true)); });
  const auto streams = by_sequence(run.program.wait(1));
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(streams.at(static_cast<std::int32_t>(i)), expected_of(run, 1, i, 40));
  run.manager.reset();
  std::uint64_t n_paused = 0;
  for (const std::string& json : run.program.stats()) n_paused += number(json, "Paused Requests");
  EXPECT_GT(n_paused, 0U);
}

}  // namespace
}  // namespace coxswain::manager
