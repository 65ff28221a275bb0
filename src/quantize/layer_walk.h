#pragma once
// LayerWalk: samples of text on their way through a model, a layer at a time, with the weights of one layer in memory:
// so a calibration sees what each linear layer multiplies, behind layers that are quantised already.
//
// Thread rule: one thread, which is one of those of the context.

#include <memory>
#include <span>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "kvstore/kv_store.h"
#include "model/architecture.h"
#include "model/describe.h"
#include "model/rope_tables.h"
#include "model/step_context.h"
#include "model/workspace.h"
#include "weights/checkpoint.h"

namespace coxswain::quantize {

using Samples = std::vector<std::vector<TokenId>>;

class LayerWalk {
 public:
  // All must outlive the walk. Reads the embedding of `source`. Errors: those of loading; kResourceExhausted.
  static Result<std::unique_ptr<LayerWalk>> begin(const model::Architecture& architecture,
                                                  const weights::Checkpoint& source,
                                                  const Samples& samples,
                                                  const kernels::KernelTable& table,
                                                  kernels::ExecContext& exec);

  // Shows what layer `index` with the weights of `checkpoint` multiplies, and goes no further.
  Status look(std::size_t index,
              const weights::Checkpoint& checkpoint,
              const model::LinearObserver& observer);
  // Goes through the layer.
  Status pass(std::size_t index, const weights::Checkpoint& checkpoint);

 private:
  LayerWalk(const model::Architecture& architecture,
            const Samples& samples,
            const kernels::KernelTable& table,
            kernels::ExecContext& exec,
            kvstore::KvStore store)
      : architecture_(architecture),
        samples_(samples),
        table_(table),
        exec_(exec),
        store_(std::move(store)),
        ropes_(architecture.arch) {}

  Status embed(const weights::Checkpoint& source, std::size_t longest);
  Status run(std::size_t index,
             const weights::Checkpoint& checkpoint,
             const model::LinearObserver* observer);
  model::StepContext step_of(std::size_t n_rows, const model::LinearObserver* observer);
  // Positions and blocks of a sample, which is alone in its step.
  model::SequenceRows place(std::size_t n_rows);

  const model::Architecture& architecture_;
  const Samples& samples_;
  const kernels::KernelTable& table_;
  kernels::ExecContext& exec_;
  kvstore::KvStore store_;
  model::RopeTables ropes_;
  model::Workspace work_;
  std::vector<BlockId> blocks_;
  std::vector<std::vector<float>> hidden_;  // of each sample, behind the layers so far
};

}  // namespace coxswain::quantize
