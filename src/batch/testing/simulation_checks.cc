// What an answer of the simulation must be, and when it must have come.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/plain_beams.h"
#include "batch/testing/simulation.h"

namespace coxswain::batch::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerWithin = 20ms;

}  // namespace

void Simulation::check_answer(const Tracked& t) {
  ASSERT_TRUE(t.sink->done());
  const bool searched = t.request.beams.width > 1;
  if (searched) check_search(t);
  for (std::uint32_t i = 0; i < t.sink->size(); ++i) {
    if (!searched) check_sequence(t, i);
    check_end(t, i);
  }
}

void Simulation::check_search(const Tracked& t) {
  const Status status = (*t.sink)[0].final_event().status;
  ++met_.search_ends[status.code()];
  if (!status.ok() && (*t.sink)[0].n_tokens() == 0) return;
  std::vector<std::vector<PlainBeam>> told;
  const std::vector<PlainBeam> found = plain_beam_search(fake_, t.request, &told);
  for (std::size_t i = 0; i < t.sink->size(); ++i) {
    const Recorder& sink = (*t.sink)[i];
    if (status.ok() && i >= found.size()) {  // nearly all tokens are forbidden
      EXPECT_EQ(sink.final_event().status.code(), Code::kNotFound);
      continue;
    }
    EXPECT_EQ(sink.final_event().status.code(), status.code());
    if (status.ok()) {
      EXPECT_EQ(sink.ids(), found[i].ids);
      EXPECT_EQ(sink.final_event().finish->reason,
                found[i].at_end_token ? FinishReason::kEosToken : FinishReason::kLength);
      continue;
    }
    // What a stream told last was the best of some step.
    EXPECT_TRUE(t.request.stream_beams);
    ++met_.n_searches_cut;
    const std::vector<TokenId> ids = sink.ids();
    EXPECT_TRUE(ids.empty() || std::ranges::any_of(told, [&](const auto& best) {
                  return i < best.size() && best[i].ids == ids;
                }));
  }
}

void Simulation::check_sequence(const Tracked& t, std::uint32_t i) {
  const auto expected = expected_output(fake_, alone(t.request, i));
  const Recorder& sink = (*t.sink)[i];
  const TokenEvent event = sink.final_event();
  if (event.status.ok()) {
    sink.expect_complete(expected, t.request.prompt_logprobs);
    EXPECT_EQ(event.finish->generated_text, expected.text);
    if (expected.reason == FinishReason::kStopSequence) ++met_.n_stop_strings;
  } else {
    sink.expect_beginning(expected);
  }
}

void Simulation::check_end(const Tracked& t, std::uint32_t i) {
  const TokenEvent event = (*t.sink)[i].final_event();
  ++met_.ends[{event.status.code(), event.status.kind()}];
  EXPECT_EQ(event.status.ok(), event.status.message().empty());
  if (event.status.code() == Code::kCancelled) {
    EXPECT_TRUE(t.cancelled_at || t.was_stalled);
    if (!t.cancelled_at) ++met_.n_silent;
  }
  check_time(t, event, *t.final_at[i]);
}

void Simulation::check_time(const Tracked& t, const TokenEvent& event, TimePoint final_at) const {
  const GenerationRequest& r = t.request;
  const ErrorKind kind = event.status.kind();
  // Never too early ...
  if (kind == ErrorKind::kDeadline) {
    EXPECT_GE(final_at, *r.deadline);
  }
  if (kind == ErrorKind::kQueueTimeout) {
    EXPECT_GE(final_at, *r.queue_deadline);
  }
  // ... and, but for the strict order, never late.
  if (options_.final_after_retire) return;
  if (r.deadline) {
    EXPECT_LE(final_at - *r.deadline, kAnswerWithin);
  }
  if (t.cancelled_at) {
    EXPECT_LE(final_at - *t.cancelled_at, kAnswerWithin);
  }
  if (kind == ErrorKind::kQueueTimeout) {
    EXPECT_LE(final_at - *r.queue_deadline, kAnswerWithin);
  } else if (r.queue_deadline && event.scheduled_at > event.queued_at) {
    EXPECT_LE(event.scheduled_at - *r.queue_deadline, kAnswerWithin);
  }
}

}  // namespace coxswain::batch::testing
