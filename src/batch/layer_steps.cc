#include "batch/layer_steps.h"

#include <algorithm>
#include <span>
#include <string>

#include <coxswain/hidden_states.h>
#include <coxswain/kv_layout.h>

#include "batch/engine_admission.h"
#include "batch/engine_core.h"

namespace coxswain::batch {
namespace {

// A token is left for the row that samples.
std::size_t n_split_blocks(const RunnerInfo& info, const GenerationRequest& request) {
  return request.prompt.empty() ? 0 : (request.prompt.size() - 1) / info.block_tokens;
}

}  // namespace

Status can_split(const RunnerInfo& info, const GenerationRequest& request) {
  const auto cannot = [](std::string why) { return Status(Code::kUnimplemented, std::move(why)); };
  if (!info.capabilities.layer_ranges || info.hidden_size == 0 || piece_blocks_max(info) == 0)
    return cannot("the runner computes all layers of a step");
  const bool looks_up = !request.prompt_logprobs && !request.outputs.any_context();
  if (!looks_up || !request.cache_prompt || !request.progress.empty() || request.beams.width > 1 ||
      request.n_sequences() > 1)
    return cannot("the request needs more of its prompt than the blocks");
  const std::size_t n_tokens = n_split_blocks(info, request) * info.block_tokens;
  if (n_tokens == 0) return cannot("the prompt fills no block");
  const std::uint64_t room = info.capabilities.attachment_bytes_max / BlockTransfers::kParts;
  if (hidden_attachment_bytes(n_tokens, info.hidden_size) + BlockTransfers::kSlotOverheadBytes <=
      room)
    return {};
  return cannot("the hidden states of " + std::to_string(n_tokens) + " tokens take more than " +
                std::to_string(room) + " bytes");
}

Result<SplitPrompt> begin_split(EngineCore& core,
                                const GenerationRequest& request,
                                TimePoint until) {
  const RunnerInfo& info = core.runner_info();
  COXSWAIN_RETURN_IF_ERROR(can_split(info, request));
  const std::size_t n_blocks = n_split_blocks(info, request);
  const auto ids = std::span(request.prompt).first(n_blocks * info.block_tokens);
  COXSWAIN_ASSIGN_OR_RETURN(
      const HeldPrefix held,
      core.transfers().hold_fresh(
          core.prefix_identity(request), ids, static_cast<std::uint32_t>(n_blocks), until));
  SequenceSpec spec{.prompt = {ids.begin(), ids.end()}};
  spec.stopping.max_new_tokens = 1;
  spec.rope_length =
      static_cast<std::uint32_t>(request.prompt.size()) + request.stopping.max_new_tokens;
  spec.adapter_digest = request.adapter_digest;
  spec.cache_salt = request.cache_salt;
  return SplitPrompt{.hold = held.id,
                     .n_blocks = held.n_blocks,
                     .spec = std::make_shared<const SequenceSpec>(std::move(spec))};
}

Result<SplitPrompt> begin_rest(EngineCore& core,
                               const GenerationRequest& request,
                               const ParkedContext& parked) {
  const std::uint32_t n_layers = core.runner_info().n_layers;
  if (parked.layers >= n_layers) return invalid_argument("the parked blocks have too many layers");
  if (core.layers_ready() != 0 && core.layers_ready() < n_layers) {
    return Status(
        Code::kUnavailable, ErrorKind::kUnavailable, "the destination has not all layers itself");
  }
  GenerationRequest prompt = request;
  prompt.progress = {};
  return begin_split(core, prompt, parked.until);
}

std::shared_ptr<const ParkedContext> park_split(EngineCore& core,
                                                const SplitPrompt& split,
                                                const GenerationRequest& request,
                                                std::uint32_t layers,
                                                std::uint64_t hidden,
                                                TimePoint until) {
  const RunnerInfo& info = core.runner_info();
  auto out = std::make_shared<ParkedContext>();
  out->hold = split.hold;
  out->incarnation = info.epoch;
  out->digest = prefix_digest(core.prefix_identity(request), split.spec->prompt);
  out->n_blocks = split.n_blocks;
  out->piece_blocks = handover_piece_blocks(info);
  out->first_blocks.assign(info.kv_groups.size(), 0);
  out->layout = std::make_shared<const KvLayout>(kv_layout_of(info));
  out->until = until;
  out->runner = core.runner();
  out->slots = core.transfers().slots();
  if (layers < info.n_layers) {
    out->layers = layers;
    out->hidden = hidden;
    core.transfers().on_end(split.hold, [runner = core.runner(), hidden] {
      static_cast<void>(runner->detach(hidden));
    });
  }
  return out;
}

void LayerSteps::push(LayerStep step) {
  if (!over_.ok()) return step.done(over_);
  waiting_.push_back(std::move(step));
}

bool LayerSteps::fill(StepPlan& plan, BlockTransfers& transfers, SequenceId id) {
  while (!waiting_.empty()) {
    LayerStep step = std::move(waiting_.front());
    waiting_.pop_front();
    const SplitPrompt& prompt = step.prompt;
    if (prompt.hold != 0 && !transfers.holds(prompt.hold)) {
      step.done({Code::kCancelled, "the hold has ended"});
      continue;
    }
    plan.dropped = take_forgotten();
    if (prompt.hold != 0) {
      plan.layers = step.layers;
      plan.hidden_in = step.hidden_in;
      plan.hidden_out = step.hidden_out;
      SequenceSpec& spec = plan.new_sequences.emplace_back(*prompt.spec);
      spec.id = id;
      plan.rows.push_back({.sequence = id,
                           .n_tokens = static_cast<std::uint32_t>(spec.prompt.size()),
                           .table_changes = transfers.use(prompt.hold, plan.step)});
      forgotten_.push_back(id);
    }
    in_flight_.push_back({.step = plan.step, .what = std::move(step)});
    return true;
  }
  return false;
}

bool LayerSteps::submitted() {
  LayerStep& step = in_flight_.back().what;
  if (!step.done_when_submitted) return false;
  std::exchange(step.done, [](const Status&) {})({});
  return true;
}

void LayerSteps::retired(std::uint64_t step, const Status& status) {
  while (!in_flight_.empty() && in_flight_.front().step <= step) {
    const LayerStep what = std::move(in_flight_.front().what);
    in_flight_.pop_front();
    what.done(status);
  }
}

std::vector<SequenceId> LayerSteps::take_forgotten() {
  return std::exchange(forgotten_, {});
}

void LayerSteps::fail(const Status& why) {
  over_ = why;
  forgotten_.clear();
  const auto in_flight = std::exchange(in_flight_, {});
  const auto waiting = std::exchange(waiting_, {});
  for (const InFlight& each : in_flight) each.what.done(why);
  for (const LayerStep& each : waiting) each.done(why);
}

void run_layers(EngineCore& core, LayerRun run) {
  const std::uint32_t begin = run.layers.begin;
  const std::uint32_t end = begin + std::min(run.layers_a_step, run.layers.end - begin);
  const bool is_last = end == core.runner_info().n_layers;
  const std::uint64_t next = is_last ? 0 : core.transfers().next_attachment();
  LayerStep step{.prompt = run.prompt,
                 .layers = {.begin = begin, .end = end},
                 .hidden_in = run.hidden,
                 .hidden_out = next,
                 .done_when_submitted = run.done_when_submitted && end == run.layers.end};
  step.done = [&core, run = std::move(run), next, end](const Status& status) mutable {
    if (!status.ok()) {
      // A step whose row alone has failed has made the next one.
      core.post([runner = core.runner(), run = std::move(run), next, status](EngineCore& engine) {
        for (const std::uint64_t id : {run.hidden, next})
          if (id != 0) static_cast<void>(runner->detach(id));
        run.done(engine, status);
      });
      return;
    }
    run.hidden = next;
    run.layers.begin = end;
    if (end == run.layers.end) return run.done(core, next);
    run_layers(core, std::move(run));
  };
  core.layer_steps().push(std::move(step));
}

}  // namespace coxswain::batch
