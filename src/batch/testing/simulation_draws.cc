// What a seed of the simulation draws: runner, engine, tier, the times of steps, and requests.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/text_codec.h>

#include "batch/testing/simulation.h"

namespace coxswain::batch::testing {
namespace {

using namespace std::chrono_literals;

// Each token is a letter.
class Letters final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view, bool) const override {
    return Status(Code::kUnimplemented, "nobody needs it here");
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string out;
    for (const TokenId id : ids) out += token_text(id);
    return out;
  }
  std::unique_ptr<Stream> stream(std::span<const TokenId>, bool) const override { return nullptr; }
  std::string token_text(TokenId id) const override {
    return {1, static_cast<char>('a' + id % 26)};
  }
  bool is_special(TokenId) const override { return false; }
};

}  // namespace

FakeRunnerOptions Simulation::draw_fake(bool tells_early) {
  FakeRunnerOptions o;
  o.tells_early = tells_early;
  o.codec = std::make_shared<Letters>();
  o.eos_every = 15;
  o.capabilities.moves = !one_in(8);
  o.n_blocks = {between(14, 23)};
  if (one_in(8)) o.rope_switch_length = 20;
  if (one_in(2)) o.about.adapter_pages = between(9, 16);
  o.rope_length_is_exact = one_in(2);
  if (one_in(2)) draw_beam_fake(o);
  switch (make_.pick(8)) {
    case 0:
      o.capabilities.look_ahead = false;
      break;
    case 1:
      o.n_blocks = {14, 12};
      o.windows = {0, 7};
      if (one_in(2)) {
        o.n_blocks = {14, 16};
        o.sink_tokens = 5;
      }
      break;
    case 2:
      o.capabilities = {};  // a stock runner
      o.n_blocks = {25};
      searches_ = false;
      break;
    case 3:
      o.capabilities.draft_tokens_max = 3;
      o.forces_tokens = one_in(2);
      break;
    case 4:
      o.capabilities.plans_chunks = false;
      searches_ = false;
      break;
    default:
      break;
  }
  if (one_in(2)) {
    o.capabilities.attachments = true;
    o.capabilities.attachment_bytes_max = std::uint64_t{between(18, 22)} << 10;
  }
  return o;
}

// Such a runner lists candidates, for searches.
void Simulation::draw_beam_fake(FakeRunnerOptions& o) {
  searches_ = true;
  o.capabilities.moves = o.capabilities.edits = true;
  o.capabilities.candidates_max = 12;
  o.about.eos_token_ids = {48, 49};
  o.few_candidates = one_in(8);
  if (one_in(2)) o.n_blocks = {between(20, 40)};
}

EngineOptions Simulation::draw_options() {
  EngineOptions o;
  constexpr std::array kPolicies{CapacityPolicy::kMaxUtilization,
                                 CapacityPolicy::kAdaptive,
                                 CapacityPolicy::kGuaranteedNoEvict,
                                 CapacityPolicy::kStaticBatch};
  o.policy = kPolicies[make_.pick(kPolicies.size())];
  o.prefill_tokens_max = between(8, 23);
  o.prefill_tokens_min = between(0, 8);
  if (one_in(3)) o.batch_size_max = between(1, 5);
  if (one_in(3)) o.overtakes_max = between(0, 4);
  o.prefix_caching = !one_in(4);
  o.partial_reuse = !one_in(4);
  o.stall_timeout = 60ms;
  o.final_after_retire = one_in(5);
  if (one_in(3)) o.chunking = ChunkingPolicy::kEqualProgress;
  if (one_in(4)) o.chunk_tokens_unit = 8;
  if (one_in(6)) o.chunk_tokens_max = 5;
  if (one_in(6)) o.sequence_idle_max = 10ms;
  fake_.divides_blocks = one_in(8);
  if (fake_.divides_blocks) o.target_itl = 2ms;
  if (one_in(8)) o.plan_rows_bytes_max = 600;
  if (one_in(8)) o.plan_new_bytes_max = 3000;
  o.prompts_first = one_in(8);
  o.dynamic_batch.tunes_batch_size = one_in(8);
  o.dynamic_batch.batch_sizes = {{3, 1}, {6, 4}};
  if (fake_.capabilities.attachments) {
    tier_ = std::make_shared<FakeTier>(FakeRunner(fake_).info(), between(10, 80));
    tier_->draw_fault = [this] { return draw_tier_fault(); };
    o.tier = tier_;
  }
  return o;
}

FakeTier::Fault Simulation::draw_tier_fault() {
  tier_->took = std::chrono::microseconds(between(1, 50));
  switch (failures_ ? make_.pick(20) : 4) {
    case 0:
      return FakeTier::Fault::kLost;
    case 1:
      return FakeTier::Fault::kCut;
    case 2:
      return FakeTier::Fault::kBroken;
    default:
      return FakeTier::Fault::kNone;
  }
}

// Positions take time, so that it is known what a prompt takes.
Clock::duration Simulation::draw_step_time(const StepPlan& plan) {
  if (tier_ != nullptr && plan.rows.empty()) return time_between(10, 50);
  std::uint32_t n_positions = 0;
  for (const Row& row : plan.rows) n_positions += row.n_tokens;
  if (quick_) return time_between(300, 600) + n_positions * 80us;
  const std::uint64_t kind = failures_ ? make_.pick(1000) : 0;
  if (kind < 850) return time_between(100, 3'000);
  if (kind < 950) return time_between(3'000, 30'000);
  if (kind < 990) return time_between(30'000, 200'000);
  if (kind < 997) return time_between(500'000, 3'000'000);
  return time_between(3'000'000, 8'000'000);  // hangs, until it fails or the runner is replaced
}

GenerationRequest Simulation::draw_request(TimePoint at) {
  GenerationRequest r = make_.make_some(24, 20);
  if (fake_.about.adapter_pages > 0) give_adapter(r, between(0, 3));
  if (one_in(3)) r.queue_deadline = at + time_between(0, 150'000);
  if (one_in(2)) r.deadline = at + time_between(0, 500'000);
  if (one_in(4)) {
    r.stopping.stop_sequences = {{1, static_cast<char>('a' + make_.pick(26))}};
    if (one_in(2)) r.stopping.order = FinishOrder::kStopFirst;
  }
  if (one_in(6)) {
    r.retention.ranges = {{.token_begin = between(0, 3), .priority = between(0, 100)}};
    if (one_in(2)) r.retention.ranges[0].duration = std::chrono::milliseconds(between(1, 50));
    if (one_in(2)) r.retention.decode_priority = between(0, 100);
  }
  r.cache_prompt = !one_in(10);
  r.cache_generation = !one_in(10);
  if (searches_ && options_.batch_size_max > 1 && one_in(3)) make_search(r);
  return r;
}

// Where the cache holds as many beams.
void Simulation::make_search(GenerationRequest& request) {
  constexpr std::array kPenalties{-0.5F, 0.0F, 1.0F};
  GenerationRequest r = request;
  r.beams = {.width = between(2, std::min(6U, options_.batch_size_max)),
             .length_penalty = kPenalties[make_.pick(kPenalties.size())],
             .early_stopping = static_cast<std::int32_t>(make_.pick(3)),
             .diversity_rate = one_in(4) ? 0.5F : 0.0F};
  r.sampling.do_sample = false;
  r.more_seeds.clear();
  r.stopping.stop_sequences.clear();
  r.stopping.max_new_tokens = std::min(r.stopping.max_new_tokens, between(4, 12));
  if (one_in(4)) r.stopping.end_ids = {3, 17, 30};
  r.n_beam_answers = between(1, r.beams.width);
  r.stream_beams = one_in(3);
  if (EngineCore::admissible(runner_->info(), options_, r, r.prompt).ok()) request = std::move(r);
}

}  // namespace coxswain::batch::testing
