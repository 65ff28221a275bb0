#pragma once
// The way in: token ids to hidden states.
//
//   h = scale * table[token]
//   h = w_projection h             where the table is narrower than the model
//   h = h + positions[position + position_offset]     where positions are learned
//   h = norm(h)                    where there is one
//
// Thread rule: values; weights are immutable after load.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "model/blocks/block.h"
#include "model/blocks/norm.h"
#include "model/tensor_map.h"
#include "model/weight_parts.h"

namespace coxswain::model {

struct EmbeddingSpec {
  float scale = 1.0F;
  std::uint32_t width = 0;        // of the table; 0 = hidden size, otherwise projected in and out
  std::uint32_t n_positions = 0;  // learned positions: rows of their table, 0 = none
  std::uint32_t position_offset = 0;  // added to a position before the look-up
  std::optional<NormSpec> norm;
};

struct EmbeddingMap {
  MatrixMap table;
  MatrixMap positions;
  NormMap norm;
  MatrixMap projection;

  template <typename Visitor>
  void visit(Visitor&& f) const {
    f(table);
    f(positions);
    f(norm);
    f(projection);
  }
};

class Embedding {
 public:
  // Without `own_table` tokens are read back from the head, which holds the same rows. Rows that are
  // looked up have row_type,
  // but for a table that is stored quantised where `how` keeps codes.
  static Result<Embedding> load(const BlockLoad& how,
                                const EmbeddingSpec& spec,
                                const EmbeddingMap& map,
                                tensor::DType row_type,
                                bool own_table);
  static BlockNeeds needs(const EmbeddingSpec& spec, const BlockSizes& sizes);

  // hidden [n_rows, hidden] from the step's tokens and Workspace::positions. `head` is the one of this model.
  void run(const StepContext& step,
           std::span<std::byte> room,
           std::span<const TokenId> tokens,
           const Linear& head,
           float* hidden) const;

 private:
  void add_positions(const StepContext& step, float* hidden) const;

  EmbeddingSpec spec_;
  RowTable table_;
  Linear packed_;  // the table where it is held as codes
  RowTable positions_;
  NormWeights norm_;
  Linear projection_;
};

}  // namespace coxswain::model
