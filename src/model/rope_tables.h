#pragma once
// RopeTables: the angles of a step's rows for every rope of a model, filled once for all layers.
//
// Thread rule: as Model.

#include <cstddef>
#include <span>
#include <vector>

#include "model/arch_spec.h"
#include "model/model.h"
#include "model/step_context.h"

namespace coxswain::model {

class RopeTables {
 public:
  explicit RopeTables(const ArchSpec& arch);

  // Points the tables at `work`, whose cos and sin they fill; once for each workspace.
  void place(const ArchSpec& arch, const Workspace& work);
  // Angles of the rows of `sequences`, at Workspace::positions.
  void fill(const StepContext& step, std::span<const SequenceRows> sequences) const;
  std::span<const RopeTable> tables() const { return tables_; }

 private:
  struct Rope {
    RopeSpec spec;
    // Frequencies of sequences up to the length at which they change, and above (only where the
    // longer lengths share theirs).
    std::vector<float> within;
    std::vector<float> beyond;
    float* cos = nullptr;
    float* sin = nullptr;
  };
  void fill_one(const StepContext& step,
                std::span<const SequenceRows> sequences,
                const Rope& rope) const;

  std::vector<Rope> ropes_;
  std::vector<RopeTable> tables_;
};

}  // namespace coxswain::model
