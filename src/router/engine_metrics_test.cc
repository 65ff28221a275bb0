#include "router/engine_metrics.h"

#include <cstdio>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::router {
namespace {

using batch::StepKind;
using telemetry::BatchMethod;
using telemetry::PriorityClass;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class EngineMetricsTest : public ::testing::Test {
 protected:
  // What was logged so far.
  std::string written() const {
    std::string text(4096, '\0');
    const ssize_t n = pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }
  ~EngineMetricsTest() override { std::fclose(file_); }

  std::FILE* file_ = std::tmpfile();
  telemetry::Logger log_{{.target = "router", .file_descriptor = fileno(file_)}};
  telemetry::Metrics metrics_{{}};
  EngineMetrics watched_{metrics_, log_};
};

TEST_F(EngineMetricsTest, TheStateSetsTheGauges) {
  watched_.on_state({.stats = {.running = 9,
                               .blocks_total = 10,
                               .blocks_free = 1,
                               .blocks_cached = 2,
                               .blocks_leased = 3,
                               .blocks_retiring = 4},
                     .queued = {.low = 1, .high = 2},
                     .batch_sequences = 5,
                     .batch_tokens_max = 600,
                     .cache_tokens_total = 160});
  EXPECT_EQ(metrics_.queue_size.value(), 3);
  EXPECT_EQ(metrics_.queue_size_by_priority[PriorityClass::kLow].value(), 1);
  EXPECT_EQ(metrics_.queue_size_by_priority[PriorityClass::kNormal].value(), 0);
  EXPECT_EQ(metrics_.queue_size_by_priority[PriorityClass::kHigh].value(), 2);
  EXPECT_EQ(metrics_.batch_current_size.value(), 5);
  EXPECT_EQ(metrics_.batch_current_max_tokens.value(), 600);
  EXPECT_EQ(metrics_.batch_max_total_tokens.value(), 160);
  EXPECT_EQ(metrics_.kv_blocks_total.value(), 10);
  EXPECT_EQ(metrics_.kv_blocks_free.value(), 1);
  EXPECT_EQ(metrics_.kv_blocks_cached.value(), 2);
  EXPECT_EQ(metrics_.kv_blocks_leased.value(), 3);
  EXPECT_EQ(metrics_.kv_blocks_retiring.value(), 4);
}

TEST_F(EngineMetricsTest, OfSeveralEnginesTheGaugesAreTheSums) {
  EngineMetrics other{metrics_, log_};
  watched_.on_state({.stats = {.blocks_free = 7}, .queued = {.normal = 3}});
  other.on_state({.stats = {.blocks_free = 5}, .queued = {.normal = 2}});
  EXPECT_EQ(metrics_.queue_size.value(), 5);
  EXPECT_EQ(metrics_.kv_blocks_free.value(), 12);
  other.on_state({.stats = {.blocks_free = 6}, .queued = {}});
  EXPECT_EQ(metrics_.queue_size.value(), 3);
  EXPECT_EQ(metrics_.kv_blocks_free.value(), 13);
  watched_.on_runner_up();
  other.on_runner_up();
  EXPECT_EQ(metrics_.replica_up.value(), 2);
  other.on_runner_lost(Status(Code::kUnavailable, "killed"));
  EXPECT_EQ(metrics_.replica_up.value(), 1);
}

TEST_F(EngineMetricsTest, TheTierIsCountedOnce) {
  batch::EngineState state;
  state.stats.tier = {.blocks_offloaded = 5,
                      .blocks_onboarded = 4,
                      .memory_blocks_onboarded = 2,
                      .paused_blocks_offloaded = 3,
                      .paused_blocks_onboarded = 1,
                      .blocks_refused = 3,
                      .blocks_skipped = 2,
                      .blocks_held = 6,
                      .bytes_held = 700,
                      .memory_blocks_held = 8,
                      .memory_bytes_held = 900};
  watched_.on_state(state);
  watched_.on_state(state);
  state.stats.tier.blocks_offloaded = 7;
  state.stats.tier.blocks_onboarded = 1;  // of a new runner
  watched_.on_state(state);
  EXPECT_EQ(metrics_.kv_tier_blocks_offloaded.value(), 7U);
  EXPECT_EQ(metrics_.kv_tier_blocks_onboarded.value(), 5U);
  EXPECT_EQ(metrics_.kv_tier_paused_blocks_offloaded.value(), 3U);
  EXPECT_EQ(metrics_.kv_tier_paused_blocks_onboarded.value(), 1U);
  EXPECT_EQ(metrics_.kv_tier_blocks_refused.value(), 3U);
  EXPECT_EQ(metrics_.kv_tier_blocks_skipped.value(), 2U);
  EXPECT_EQ(metrics_.kv_tier_blocks.value(), 6);
  EXPECT_EQ(metrics_.kv_tier_bytes.value(), 700);
  EXPECT_EQ(metrics_.kv_tier_memory_blocks_onboarded.value(), 2U);
  EXPECT_EQ(metrics_.kv_tier_memory_blocks.value(), 8);
  EXPECT_EQ(metrics_.kv_tier_memory_bytes.value(), 900);
}

TEST_F(EngineMetricsTest, ATargetThatCannotBeKeptIsSaidOnce) {
  const batch::StepFinished above{
      .n_rows = 9, .n_prompt_tokens = 16, .timings = {}, .floor = 131ms};
  watched_.on_step_finished({.n_rows = 9, .n_prompt_tokens = 16, .timings = {}});
  for (int i = 0; i < 63; ++i) watched_.on_step_finished(above);
  EXPECT_EQ(metrics_.itl_floor_steps.value(), 63U);
  EXPECT_THAT(written(), Not(HasSubstr("--target-itl-ms")));
  for (int i = 0; i < 200; ++i) watched_.on_step_finished(above);
  EXPECT_THAT(written(), HasSubstr("--target-itl-ms is less than what decodes and one block"));
  EXPECT_THAT(written(), HasSubstr("131"));
  EXPECT_EQ(metrics_.itl_floor_steps.value(), 263U);
}

TEST_F(EngineMetricsTest, StepsAreCountedByKind) {
  watched_.on_step_submitted(StepKind::kPrefill);
  watched_.on_step_submitted(StepKind::kDecode);
  watched_.on_step_submitted(StepKind::kDecode);
  watched_.on_step_finished({.kind = StepKind::kDecode,
                             .duration = 2s,
                             .timings = {.forward = 1s, .sample = 500ms, .total = 2s},
                             .wait = WaitReason::kNoBlocks});
  watched_.on_step_failed(StepKind::kPrefill, internal_error("no"));
  for (const std::uint32_t n : {0U, 3U}) watched_.on_drafts({.computed = 4, .accepted = n});
  EXPECT_EQ(metrics_.batch_inference_count[BatchMethod::kPrefill].value(), 1U);
  EXPECT_EQ(metrics_.batch_inference_count[BatchMethod::kDecode].value(), 2U);
  EXPECT_EQ(metrics_.batch_inference_success[BatchMethod::kDecode].value(), 1U);
  EXPECT_EQ(metrics_.batch_inference_success[BatchMethod::kPrefill].value(), 0U);
  EXPECT_EQ(metrics_.batch_inference_failure[BatchMethod::kPrefill].value(), 1U);
  EXPECT_EQ(metrics_.batch_inference_failure[BatchMethod::kDecode].value(), 0U);
  EXPECT_EQ(metrics_.queue_head_steps[WaitReason::kNoBlocks].value(), 1U);
  EXPECT_EQ(metrics_.queue_head_steps[WaitReason::kNone].value(), 0U);
  EXPECT_THAT(metrics_.render(),
              AllOf(HasSubstr("tgi_queue_head_steps_total{reason=\"no_blocks\"} 1\n"),
                    HasSubstr("tgi_batch_inference_duration_sum{method=\"decode\"} 2\n"),
                    HasSubstr("tgi_batch_forward_duration_sum{method=\"decode\"} 1\n"),
                    HasSubstr("tgi_batch_decode_duration_sum{method=\"decode\"} 0.5\n"),
                    HasSubstr("tgi_request_skipped_tokens_sum 3\n"),
                    HasSubstr("tgi_request_skipped_tokens_count 2\n"),
                    HasSubstr("tgi_draft_tokens_total 8\n"),
                    HasSubstr("tgi_draft_tokens_accepted_total 3\n")));
}

TEST_F(EngineMetricsTest, AdmissionsAndPausesAreCounted) {
  watched_.on_request_admitted({.request = RequestId{1},
                                .n_prompt_tokens = 17,
                                .n_cached_tokens = 16,
                                .n_copied_tokens = 3,
                                .hit = batch::PrefixHit::kHit});
  watched_.on_request_admitted({.request = RequestId{2}});
  watched_.on_admissions(2);
  watched_.on_pause(RequestId{1});
  EXPECT_EQ(metrics_.prompt_tokens.value(), 17U);
  EXPECT_EQ(metrics_.prefix_cache_hit_tokens.value(), 16U);
  EXPECT_EQ(metrics_.prefix_cache_copied_tokens.value(), 3U);
  EXPECT_EQ(metrics_.prefix_cache_hits.value(), 1U);
  EXPECT_EQ(metrics_.prefix_cache_partial_hits.value(), 0U);
  EXPECT_EQ(metrics_.prefix_cache_misses.value(), 1U);
  EXPECT_EQ(metrics_.preemptions.value(), 1U);
  EXPECT_THAT(metrics_.render(), HasSubstr("tgi_batch_next_size_sum 2\n"));
}

TEST_F(EngineMetricsTest, ALostRunnerIsLoggedAndShown) {
  watched_.on_runner_up();
  EXPECT_EQ(metrics_.replica_up.value(), 1);
  watched_.on_runner_lost(Status(Code::kUnavailable, "killed"));
  EXPECT_EQ(metrics_.replica_up.value(), 0);
  watched_.on_runner_up();
  watched_.on_runner_replaced(4);
  EXPECT_EQ(metrics_.replica_up.value(), 1);
  watched_.on_broken_invariant("blocks are not conserved");
  EXPECT_THAT(written(),
              AllOf(HasSubstr("the model runner is lost error=killed"),
                    HasSubstr("the model runner is replaced waiting=4"),
                    HasSubstr("an invariant of the engine is broken what=\"blocks are not")));
}

}  // namespace
}  // namespace coxswain::router
