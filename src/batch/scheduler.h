#pragma once
// Scheduler: decides what the next step computes. Pure: it reads sequences and the KV cache, works
// on scratch counters over every resource at once (prefill tokens, KV blocks of each group, batch
// slots) and returns a Decision, which the engine then commits as a whole. docs/scheduling.md
// explains the rules.
//
// Thread rule: one engine thread.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/stats.h>
#include <coxswain/step_runner.h>

#include "batch/capacity_rules.h"
#include "batch/future_blocks.h"
#include "batch/length_forecast.h"
#include "batch/sequence.h"
#include "batch/waiting_queue.h"
#include "kvcache/kv_cache.h"

namespace coxswain::batch {

struct PlannedRow {
  Sequence* sequence = nullptr;
  std::uint32_t first_position = 0;
  std::uint32_t n_tokens = 0;
  // Block-table entries wanted before the row runs, for the upper bound of its positions.
  std::uint32_t n_blocks = 0;
  bool prefill = false;
  bool admitted = false;  // its first row in this life
  bool sample = false;    // reaches the end of the known context
  // Not null: an admission that shares what is before first_position with this running sibling (KvCache::fork).
  Sequence* fork_of = nullptr;
};

struct Decision {
  std::vector<Sequence*> paused;        // give their blocks back before anything is taken
  std::vector<PlannedRow> rows;         // decodes and running prefills first, then admissions
  Sequence* impossible = nullptr;       // nothing runs and this one, the head, will never fit
  WaitReason wait = WaitReason::kNone;  // of the first one that is not admitted
  std::uint32_t prompt_tokens_max = 0;  // that the step may have
};

struct SchedulerInput {
  const kvcache::KvCache* cache = nullptr;
  Capabilities capabilities;
  std::span<Sequence* const> running;        // in order: priority, then arrival
  const WaitingQueue* waiting = nullptr;     // and paused
  const LengthForecast* forecast = nullptr;  // REQUIRED under CapacityPolicy::kAdaptive
  // TGI's counter, and whether those who decode are owed a step before the next prompts: for runners without chunks.
  std::uint32_t waiting_tokens = 0;
  bool decode_is_due = false;
  // Prompt tokens that the step may have: a block at least, unless blocks may be divided, then one.
  std::uint32_t prompt_tokens_max = 0xFFFFFFFFU;
  bool divides_blocks = false;
  std::uint32_t batch_size_max = 0xFFFFFFFFU;  // beside the option
  // Per KV group, or empty: blocks that are copied for paused sequences, and then come back.
  std::span<const std::uint32_t> on_loan = {};
  std::uint32_t adapter_pages = 0;  // RunnerInfo's
  bool steps_in_flight = false;
};

class Scheduler {
 public:
  explicit Scheduler(const EngineOptions& options) : options_(options) {}

  // Stands until the next call.
  const Decision& plan(const SchedulerInput& in);

  // Whether the empty pool of a group has room for a sequence of that many positions, or for its beams.
  struct BeamsAlone {
    std::uint32_t width = 1;
    std::uint32_t n_prompt = 0;  // of width > 1
  };
  static bool fits_alone(const kvcache::KvCacheOptions& cache,
                         const kvcache::KvGroupOptions& group,
                         const Capabilities& capabilities,
                         const EngineOptions& options,
                         std::uint32_t n_tokens,
                         BeamsAlone beams);

 private:
  enum class Rows : std::uint8_t { kAll, kPrompts, kDecodes };

  void reset(const SchedulerInput& in);
  bool batch_is_closed() const;
  void plan_running(Rows which);
  void plan_prompts_first();
  std::uint32_t new_blocks(std::size_t index, std::uint32_t n_tokens) const;
  void plan_lockstep();
  void admit_beside_running();
  void admit_waiting();
  bool admit(Sequence& s);
  bool admit_behind(Sequence& s, const kvcache::PrefixProbe& prefix);
  bool refuse(WaitReason why);
  void note_wait(WaitReason why);
  bool waits_for_sibling(const Sequence& s) const;
  Sequence* fork_source(const Sequence& s, std::uint32_t n_found) const;
  kvcache::PrefixProbe shared_with(const Sequence& source, std::uint32_t n_tokens) const;
  bool enough_to_interrupt() const;
  void drop_admissions();
  std::uint32_t row_tokens_max_of(const Sequence& s) const;
  std::uint32_t prefill_chunk(const Sequence& s,
                              std::uint32_t first,
                              std::uint32_t n_planned_prefills) const;
  bool make_room(std::size_t index, std::uint32_t n_new);
  Sequence* pick_victim(std::size_t index);
  std::uint32_t batch_size_max() const {
    return std::min(options_.batch_size_max, in_.batch_size_max);
  }
  bool batch_is_full() const { return n_running_ >= batch_size_max(); }
  bool has_place(const Sequence& s) const {
    return n_running_ == 0 || n_running_ + s.n_places() <= batch_size_max();
  }
  void note_adapter(const Sequence& s);
  bool has_adapter_room(const Sequence& s) const;
  std::uint32_t on_loan(std::size_t group) const {
    return in_.on_loan.empty() ? 0 : in_.on_loan[group];
  }
  std::uint32_t reclaimable(const Sequence& s, std::size_t group) const;
  std::uint32_t chunk_unit(std::uint32_t row_tokens) const;
  void share_rest();
  bool extend(PlannedRow& row);
  bool gives_way(std::size_t index, const Sequence& s) const;
  bool outranks_running(const Sequence& s) const;
  bool preempt_for(const Sequence& s, const std::vector<std::uint32_t>& need);
  void pause(std::size_t index);
  void unplan(Sequence& s);
  bool fits_now(std::uint32_t n_new) const;
  std::uint32_t end_max(const Sequence& s, std::uint32_t n_tokens) const;
  void add_row(Sequence& s, std::uint32_t n_tokens, bool prefill, std::uint32_t n_blocks);
  std::uint32_t expected_end(const Sequence& s) const;
  FutureBlocks::Use future_of(const Sequence& s, std::size_t group, std::uint32_t n_blocks) const;
  void foresee_running();
  std::uint32_t blocks_to_end(const Sequence& s, std::uint32_t n_blocks) const;
  std::uint32_t promised_blocks();
  bool has_room_for_all(const Sequence& s,
                        std::uint32_t n_blocks,
                        const std::vector<std::uint32_t>& taken);
  bool foresees_room(const Sequence& s,
                     std::uint32_t n_blocks,
                     const std::vector<std::uint32_t>& taken);
  std::uint32_t overtakes_left(const Sequence& s) const;
  // Of one sequence and one KV group: entries of its table, and those that are not released.
  struct Held {
    std::uint32_t n_entries = 0;
    std::uint32_t n_blocks = 0;
  };
  // Whether blocks for the rest of a prompt need not be free now: those who decode beside it end meanwhile.
  bool foresees_prompts(std::size_t group) const {
    return rules_.foresees_lengths && in_.capabilities.plans_chunks && !options_.prompts_first &&
           in_.cache->window_tokens(group) == 0;
  }
  std::uint32_t reserved_blocks(const Sequence& s,
                                std::size_t group,
                                std::uint32_t computed,
                                Held held) const;
  std::uint32_t reserved_running(std::size_t index, std::size_t group) const;
  void count_for_admissions();
  void note_keys_being_computed();
  bool is_paused(std::size_t index) const { return paused_[index] != 0; }

  const EngineOptions options_;
  SchedulerInput in_;
  CapacityRules rules_;
  Decision out_;
  // Scratch, per KV group unless said:
  std::vector<std::uint32_t> available_;     // can be leased in this plan
  std::vector<std::uint32_t> incoming_;      // come back when steps in flight retire
  std::vector<std::uint32_t> outstanding_;   // promised to running sequences, not leased yet
  std::vector<std::uint8_t> paused_;         // per running sequence
  std::vector<std::uint32_t> blocks_after_;  // per running sequence: table entries after this plan
  std::vector<FutureBlocks> futures_;        // of what runs after this plan
  std::optional<std::uint32_t> promised_;    // table entries that all may still ask for
  bool foreseen_ = false;                    // futures_ is of this plan
  // Keys of blocks that rows of this or a submitted step will publish; not per group.
  std::vector<std::uint64_t> computing_;
  std::vector<const Sequence*> blocked_;          // looked at and not admitted
  std::vector<std::uint64_t> admitted_arrivals_;  // of this plan
  std::vector<std::string_view> adapters_;  // of what runs after this plan, where pages are counted
  std::uint32_t n_adapter_pages_ = 0;       // of these
  std::uint32_t prefill_budget_ = 0;
  std::uint32_t step_max_ = 0;  // prompt tokens of a step without decodes
  // The least of a prompt that goes on: a block, or less under a latency target.
  std::uint32_t chunk_min_ = 0;
  std::uint32_t chunk_unit_ = 0;
  std::uint32_t n_prefills_ = 0;
  std::uint32_t n_running_ = 0;
  std::uint32_t n_stalled_ = 0;  // of the running ones
  bool short_of_blocks_ = false;
  WaitReason refusal_ = WaitReason::kNone;  // why admit() said no
};

}  // namespace coxswain::batch
