#pragma once
// StepWatch: an EngineObserver that holds an engine to its limits and its statistics to what the sinks have seen, at
// each step and without a look into the engine.
//
// - a step has no more rows and prompt tokens than the options allow, and no more sequences run
// - a request that waits is overtaken at most overtakes_max times, and by as many as are admitted in one step; where
//   there is a tier, by more while it waits for that
// - every sequence is counted once, as queued, active or completed; requests have the tokens that their sinks have, but
//   for those of the step; what is used and free is the cache
// - the cache tells of no block that it stores twice or removes without having stored it
//
// Thread rule: one thread.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include <gtest/gtest.h>

#include "base/numbers.h"
#include "batch/engine.h"
#include "batch/engine_observer.h"
#include "batch/testing/recorder.h"

namespace coxswain::batch::testing {

class StepWatch final : public EngineObserver {
 public:
  StepWatch(const EngineOptions& options, const RunnerInfo& info)
      : options_(options), capabilities_(info.capabilities), block_tokens_(info.block_tokens) {}

  // Before EngineCore::add().
  void note_added(const GenerationRequest& request, std::shared_ptr<const RequestRecorder> sink) {
    n_added_ += request.n_sequences();
    waiting_.emplace(request.id, 0);
    if (request.beams.width > 1) searches_.insert(request.id);
    sinks_.emplace(request.id, std::move(sink));
  }

  StatsWanted stats_wanted() const override {
    return {.iterations = true, .requests = true, .kv_events = true};
  }

  void on_state(const EngineState& state) override {
    EXPECT_LE(state.batch_sequences, options_.batch_size_max);
    EXPECT_EQ(state.stats.accepted, n_added_);
  }

  // Ids are given in the order of arrival.
  void on_request_admitted(const RequestAdmitted& admitted) override {
    waiting_.erase(admitted.request);
    for (auto& [id, n_overtaken] : waiting_) {
      if (id > admitted.request) break;
      if (options_.tier != nullptr || sinks_.at(id)->done()) continue;
      const std::uint64_t n_most = std::uint64_t{options_.overtakes_max} + options_.batch_size_max;
      EXPECT_LE(++n_overtaken, n_most)
          << "request " << static_cast<std::uint64_t>(id) << " starves";
    }
  }

  void on_iteration(const IterationStats& step, std::span<const RequestStats> requests) override {
    EXPECT_GT(step.iteration, last_iteration_);
    last_iteration_ = step.iteration;
    EXPECT_EQ(step.n_scheduled, step.n_context + step.n_generation);
    EXPECT_LE(step.n_scheduled, options_.batch_size_max);
    if (capabilities_.plans_chunks) {
      EXPECT_LE(step.n_context_tokens, base::round_up(options_.prefill_tokens_max, block_tokens_));
    }
    EXPECT_LE(step.n_decoded_tokens, step.n_scheduled * tokens_max());
    EXPECT_EQ(step.kv.blocks_used + step.kv.blocks_free, step.kv.blocks_max);
    n_completed_ += step.n_completed;
    const std::uint64_t n_open = step.n_active + step.n_queued;
    EXPECT_GE(n_open + n_completed_, n_added_);
    EXPECT_LE(requests.size(), n_open + step.n_completed);
    // In the strict order a sequence may have ended and not have been answered.
    if (!options_.final_after_retire) {
      EXPECT_EQ(n_open + n_completed_, n_added_);
      EXPECT_GE(requests.size(), n_open);
    }
    for (const RequestStats& request : requests) check_request(request);
  }

  void on_pause(RequestId id) override {
    ++n_pauses;
    n_search_pauses += searches_.count(id);
  }

  void on_kv_events(std::span<KvEvent> events) override {
    for (const KvEvent& event : events) {
      std::map<std::uint64_t, std::uint32_t>& stored = stored_[event.kv_group];
      if (event.kind == KvEvent::Kind::kCreated) stored.clear();
      for (const KvEventBlock& block : event.blocks) {
        const auto it = stored.find(block.hash);
        if (event.kind == KvEvent::Kind::kStored) {
          EXPECT_TRUE(it == stored.end()) << "stored twice";
          stored[block.hash] = block.cache_level;
        } else if (it == stored.end()) {
          ADD_FAILURE() << "removed or changed and not stored";
        } else if (event.kind == KvEvent::Kind::kRemoved) {
          n_evicted += it->second == 0 ? 1 : 0;
          stored.erase(it);
        } else {
          EXPECT_EQ(it->second, block.cache_level_before);
          n_evicted += it->second == 0 && block.cache_level > 0 ? 1 : 0;
          it->second = block.cache_level;
        }
      }
    }
  }

  // Cached blocks that were told of, in all groups.
  std::size_t n_stored() const {
    std::ptrdiff_t n = 0;
    for (const auto& [group, stored] : stored_)
      n += std::ranges::count(stored, 0U, [](const auto& block) { return block.second; });
    return static_cast<std::size_t>(n);
  }

  std::uint64_t n_pauses = 0;
  std::uint64_t n_search_pauses = 0;  // of these, of beam searches
  std::uint64_t n_evicted = 0;

 private:
  std::uint32_t tokens_max() const { return 1 + capabilities_.draft_tokens_max; }

  void check_request(const RequestStats& request) const {
    const RequestRecorder& sink = *sinks_.at(request.id);
    if (sink.size() > 1) return;                 // it does not say which one
    if (searches_.contains(request.id)) return;  // a pause forgets its tokens
    const std::size_t n_seen = sink[0].n_tokens();
    EXPECT_GE(request.n_generated_tokens, n_seen);
    EXPECT_LE(request.n_generated_tokens, n_seen + (request.scheduled ? tokens_max() : 0));
    EXPECT_LE(request.n_token_iterations, request.n_generated_tokens);
    EXPECT_EQ(request.first_iteration > 0, request.n_generated_tokens > 0);
    EXPECT_LE(request.last_iteration, last_iteration_);
  }

  const EngineOptions options_;
  const Capabilities capabilities_;
  const std::uint32_t block_tokens_;
  std::map<RequestId, std::shared_ptr<const RequestRecorder>> sinks_;
  std::set<RequestId> searches_;
  std::map<RequestId, std::uint64_t> waiting_;  // never admitted: how often overtaken
  std::uint64_t n_added_ = 0;
  std::uint64_t n_completed_ = 0;
  std::uint64_t last_iteration_ = 0;
  // By KV group: hashes, with the level of each block.
  std::map<std::uint32_t, std::map<std::uint64_t, std::uint32_t>> stored_;
};

}  // namespace coxswain::batch::testing
