// Beam searches (beam_width): what their tensors hold is what a plain program finds.

#include <algorithm>
#include <string>
#include <vector>

#include <coxswain/batch_manager.h>

#include "batch/testing/fake_runner.h"
#include "batch/testing/plain_beams.h"
#include "manager/testing/managed.h"
#include "manager/testing/program.h"

namespace coxswain::manager {
namespace {

using batch::testing::FakeRunnerOptions;
using batch::testing::plain_beam_search;
using batch::testing::PlainBeam;
using testing::find;
using testing::joined;
using testing::kPrompt;
using testing::make_request;
using testing::Managed;
using testing::plain_request;
using testing::Reply;

FakeRunnerOptions beam_fake() {
  FakeRunnerOptions out;
  out.capabilities.edits = out.capabilities.moves = true;
  out.capabilities.candidates_max = 64;
  out.n_blocks = {200};
  return out;
}

std::shared_ptr<InferenceRequest> beam_request(std::uint64_t id, TokenId end_id, bool streaming) {
  auto out = make_request(id, kPrompt, 9, streaming);
  out->set(NamedTensor::of<std::int32_t>("beam_width", {1}, {3}));
  out->set(NamedTensor::of<float>("len_penalty", {1}, {-1.0F}));
  out->set(NamedTensor::of<std::int32_t>("early_stopping", {1}, {0}));
  out->set(NamedTensor::of<std::int32_t>("end_id", {1}, {end_id}));
  out->set(NamedTensor::of<std::int32_t>("pad_id", {1}, {1}));
  out->set(NamedTensor::of<bool>("return_log_probs", {1}, {true}));
  return out;
}

// `answers` as the tensors of one response have them, behind `prompt`.
void expect_beams(const std::vector<NamedTensor>& outputs,
                  const std::vector<TokenId>& prompt,
                  const std::vector<PlainBeam>& answers) {
  std::size_t n_most = 0;
  for (const PlainBeam& beam : answers) n_most = std::max(n_most, beam.ids.size());
  std::vector<TokenId> ids;
  std::vector<std::int32_t> lengths;
  std::vector<float> logprobs;
  std::vector<float> sums;
  for (const PlainBeam& beam : answers) {
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    ids.insert(ids.end(), beam.ids.begin(), beam.ids.end());
    ids.insert(ids.end(), n_most - beam.ids.size(), 1);
    lengths.push_back(static_cast<std::int32_t>(prompt.size() + beam.ids.size()));
    logprobs.insert(logprobs.end(), beam.logprobs.begin(), beam.logprobs.end());
    logprobs.insert(logprobs.end(), n_most - beam.ids.size(), 0.0F);
    sums.push_back(static_cast<float>(beam.sum));
  }
  const auto n = static_cast<std::int64_t>(n_most);
  const std::int64_t n_ids = n + static_cast<std::int64_t>(prompt.size());
  EXPECT_EQ(*find(outputs, "output_ids"),
            NamedTensor::of<std::int32_t>("output_ids", {1, 3, n_ids}, ids));
  EXPECT_EQ(*find(outputs, "sequence_length"),
            NamedTensor::of<std::int32_t>("sequence_length", {1, 3}, lengths));
  EXPECT_EQ(*find(outputs, "output_log_probs"),
            NamedTensor::of<float>("output_log_probs", {1, 3, n}, logprobs));
  EXPECT_EQ(*find(outputs, "cum_log_probs"), NamedTensor::of<float>("cum_log_probs", {1, 3}, sums));
}

TEST(BatchManager, TheBeamsOfASearchAreRowsOfItsTensors) {
  Managed run({.fake = beam_fake()});
  std::size_t n_ragged = 0;
  for (TokenId end_id = 1; end_id < 40; end_id += 3) {
    run.program.submit(beam_request(2 * static_cast<std::uint64_t>(end_id), end_id, false));
    run.program.submit(beam_request(2 * static_cast<std::uint64_t>(end_id) + 1, end_id, true));
    const BeamParams params{.width = 3, .length_penalty = -1.0F, .early_stopping = 0};
    const auto next = [&](const std::vector<TokenId>& output) {
      const batch::GenerationRequest request = plain_request(kPrompt, 9);
      return candidates_behind(run.fake, request, joined(kPrompt, output), run.fake.vocab_size);
    };
    const auto answers = plain_beam_search(params, 9, {end_id}, next);
    const Reply whole = run.program.wait(2 * static_cast<std::uint64_t>(end_id));
    EXPECT_EQ(whole.error(), "");
    ASSERT_EQ(whole.responses.size(), 1U);
    expect_beams(whole.responses[0], kPrompt, answers);
    const Reply stream = run.program.wait(2 * static_cast<std::uint64_t>(end_id) + 1);
    ASSERT_GT(stream.responses.size(), 1U);
    expect_beams(stream.responses.back(), {}, answers);
    EXPECT_EQ(find(stream.responses[1], "output_ids")->shape, (std::vector<std::int64_t>{1, 3, 2}));
    n_ragged += answers[0].ids.size() < answers[2].ids.size() ? 1 : 0;
  }
  EXPECT_GT(n_ragged, 0U);
}

}  // namespace
}  // namespace coxswain::manager
