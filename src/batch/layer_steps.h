#pragma once
// LayerSteps: steps of some layers of a prompt, between the steps of an engine: the first layers in a replica whose
// other weights have not arrived, the rest in one that has all (handover.h). A split prompt has whole blocks of its
// own, which nobody else sees until all layers have been there, and no row that samples.
//
// Each step introduces a sequence of its own, which the next plan drops: nothing is kept in the runner between two of
// them but keys and values, and the hidden states as an attachment.
//
// Thread rule: one engine thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "batch/block_transfers.h"
#include "batch/engine.h"

namespace coxswain::batch {

class EngineCore;

struct SplitPrompt {
  std::uint64_t hold = 0;  // of BlockTransfers::hold_fresh()
  std::uint32_t n_blocks = 0;
  // Its id is of no use. The prompt is the ids in the blocks.
  std::shared_ptr<const SequenceSpec> spec = {};
};

// Whether and why not the prompt of `request` may be split in an engine over such a runner: it needs ranges of layers,
// an attachment that holds its hidden states, and a whole block.
Status can_split(const RunnerInfo& info, const GenerationRequest& request);
// Takes blocks for it, until `until`. Errors: can_split()'s; kResourceExhausted.
Result<SplitPrompt> begin_split(EngineCore& core,
                                const GenerationRequest& request,
                                TimePoint until);
// As begin_split(), for the layers behind those that another engine has parked. Errors: also kUnavailable where this
// one has not all layers itself, kInvalidArgument for more parked ones than the model has.
Result<SplitPrompt> begin_rest(EngineCore& core,
                               const GenerationRequest& request,
                               const ParkedContext& parked);
// What has been computed of it, for a hand-over: `layers` of all its positions, and what the next one reads.
std::shared_ptr<const ParkedContext> park_split(EngineCore& core,
                                                const SplitPrompt& split,
                                                const GenerationRequest& request,
                                                std::uint32_t layers,
                                                std::uint64_t hidden,
                                                TimePoint until);

struct LayerStep {
  SplitPrompt prompt = {};  // hold 0: nothing is computed, the step is to tell what has arrived
  LayerRange layers = {};
  std::uint64_t hidden_in = 0;   // StepPlan's
  std::uint64_t hidden_out = 0;  // likewise
  // Plans behind it may count on it: `done` is called when it has been submitted. If it then fails, the runner is lost.
  bool done_when_submitted = false;
  // Once. kCancelled: the hold had ended before; kUnavailable: the runner is lost, or the engine ends.
  std::function<void(const Status&)> done = [](const Status&) {};
};

class LayerSteps {
 public:
  // Between fail() and restart() nobody would take it, perhaps for long: it is done at once, with that reason.
  void push(LayerStep step);
  bool has_work() const { return !waiting_.empty(); }
  // The next one becomes the plan; the sequence of its row, if it has one. False: what waited was over.
  bool fill(StepPlan& plan, BlockTransfers& transfers, SequenceId id);
  // The runner has taken the last one. Whether later plans may count on it.
  bool submitted();
  // The result of the step is there, of its row if it had one.
  void retired(std::uint64_t step, const Status& status);
  // What the runner may forget and no further plan will say.
  std::vector<SequenceId> take_forgotten();
  // REQUIRES: `why` is not ok.
  void fail(const Status& why);
  // There is a runner again.
  void restart() { over_ = {}; }

 private:
  struct InFlight {
    std::uint64_t step = 0;
    LayerStep what;
  };

  std::deque<LayerStep> waiting_;
  std::deque<InFlight> in_flight_;
  std::vector<SequenceId> forgotten_;
  Status over_;  // why there is no runner
};

struct LayerRun {
  SplitPrompt prompt;
  LayerRange layers;         // begins at 0, or `hidden` is what its first one reads
  std::uint64_t hidden = 0;  // an attachment; used up, whatever comes of it
  std::uint32_t layers_a_step = 1;
  bool done_when_submitted = false;  // LayerStep's, of the last one
  // Once, with what the next layer reads (0 behind the model's last), or LayerStep's errors. Then in a post: the engine
  // may be in the middle of losing its runner.
  std::function<void(EngineCore&, const Result<std::uint64_t>&)> done;
};

// Steps for all of these layers, one behind the other.
void run_layers(EngineCore& core, LayerRun run);

}  // namespace coxswain::batch
