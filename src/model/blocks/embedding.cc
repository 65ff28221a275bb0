#include "model/blocks/embedding.h"

#include "model/step_context.h"
#include "model/weight_loader.h"

namespace coxswain::model {

Result<Embedding> Embedding::load(const BlockLoad& how,
                                  const EmbeddingSpec& spec,
                                  const EmbeddingMap& map,
                                  tensor::DType row_type,
                                  bool own_table) {
  Embedding out;
  out.spec_ = spec;
  if (own_table) {
    if (how.format.keeps_codes && how.loader.reader().is_quantised(map.table)) {
      COXSWAIN_ASSIGN_OR_RETURN(out.packed_, how.loader.linear(map.table, how.format));
    } else {
      COXSWAIN_ASSIGN_OR_RETURN(out.table_, how.loader.rows(map.table, row_type));
    }
  }
  COXSWAIN_ASSIGN_OR_RETURN(out.positions_, how.loader.rows(map.positions, row_type));
  COXSWAIN_ASSIGN_OR_RETURN(out.norm_, how.loader.norm(map.norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.projection_, how.loader.linear(map.projection, how.format));
  return out;
}

BlockNeeds Embedding::needs(const EmbeddingSpec& spec, const BlockSizes& sizes) {
  if (spec.width == 0) return {};
  Carver counted;
  counted.take<float>(sizes.n_rows * spec.width);
  return {counted.taken(), sizes.linear_scratch(spec.width)};
}

void Embedding::add_positions(const StepContext& step, float* hidden) const {
  // The offset is a table that begins further on.
  const std::size_t skipped =
      std::size_t{spec_.position_offset} * positions_.width * tensor::size_of(positions_.type);
  kernels::LookUpArgs args;
  args.table = positions_.data.data() + skipped;
  args.type = positions_.type;
  args.ids = step.work.positions.first(step.n_rows);
  args.y = hidden;
  args.y_stride = step.hidden;
  args.n = positions_.width;
  args.accumulate = true;
  step.kernels.look_up(step.exec, args);
}

void Embedding::run(const StepContext& step,
                    std::span<std::byte> room,
                    std::span<const TokenId> tokens,
                    const Linear& head,
                    float* hidden) const {
  const std::size_t width = spec_.width == 0 ? step.hidden : spec_.width;
  float* const to =
      spec_.width == 0 ? hidden : Carver(room).take<float>(step.n_rows * width).data();
  if (table_.n_rows > 0) {
    step.kernels.look_up(step.exec,
                         {table_.data.data(), table_.type, tokens, to, width, width, spec_.scale});
  } else {
    const Linear& rows = packed_.empty() ? head : packed_;
    step.kernels.look_up_packed(step.exec, {rows.pieces, tokens, to, width, spec_.scale});
  }
  if (!projection_.empty()) step.linear(projection_, to, hidden, step.n_rows);
  if (spec_.n_positions != 0) add_positions(step, hidden);
  if (spec_.norm) run_norm(step, *spec_.norm, norm_, hidden, hidden, step.n_rows);
}

}  // namespace coxswain::model
