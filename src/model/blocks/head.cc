#include "model/blocks/head.h"

#include <algorithm>

#include "model/step_context.h"
#include "model/weight_loader.h"

namespace coxswain::model {

Result<Head> Head::load(const BlockLoad& how,
                        const HeadSpec& spec,
                        const NormSpec& norm,
                        const HeadMap& map,
                        const MatrixMap& tied) {
  Head out;
  out.spec_ = spec;
  out.norm_spec_ = norm;
  COXSWAIN_ASSIGN_OR_RETURN(out.norm_, how.loader.norm(map.norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.projection_, how.loader.linear(map.projection, how.format));
  // Each of its errors is an error of a token's probability: fewer than 8 bits are for the layers inside.
  // Codes of a file are what they are.
  const bool has_few_bits = how.format.format->bits < 8;
  const Holding format = has_few_bits ? Holding(kernels::formats::kInt8) : how.format;
  COXSWAIN_ASSIGN_OR_RETURN(out.matrix_,
                            how.loader.linear(map.matrix.empty() ? tied : map.matrix, format));
  return out;
}

BlockNeeds Head::needs(std::size_t width, const BlockSizes& sizes) {
  Carver counted;
  counted.take<float>(sizes.n_rows * sizes.hidden);
  if (width != 0) counted.take<float>(sizes.n_rows * width);
  return {counted.taken(), sizes.linear_scratch(std::max(width, sizes.hidden))};
}

void Head::normed(const StepContext& step,
                  std::span<const float> hidden,
                  std::span<const std::uint32_t> rows,
                  float* out) const {
  const std::size_t n = rows.size();
  step.kernels.gather(step.exec,
                      {hidden.data(), step.hidden, rows.data(), out, step.hidden, n, step.hidden});
  if (spec_.norm) run_norm(step, norm_spec_, norm_, out, out, n);
}

void Head::project(const StepContext& step,
                   std::span<std::byte> room,
                   std::span<const float> normed,
                   std::span<float> out) const {
  const std::size_t n = normed.size() / step.hidden;
  const float* x = normed.data();
  if (!projection_.empty()) {
    float* const narrow = Carver(room).take<float>(n * projection_.n()).data();
    step.linear(projection_, x, narrow, n);
    x = narrow;
  }
  step.linear(matrix_, x, out.data(), n);
  if (spec_.scale == 1.0F && spec_.soft_cap == 0.0F) return;
  const std::size_t vocab = matrix_.n();
  step.kernels.soft_cap(step.exec, {out.data(), vocab, n, vocab, spec_.scale, spec_.soft_cap});
}

void Head::run(const StepContext& step,
               std::span<std::byte> room,
               std::span<const float> hidden,
               std::span<const std::uint32_t> rows,
               std::span<float> out) const {
  Carver carver(room);
  const std::span<float> x = carver.take<float>(rows.size() * step.hidden);
  normed(step, hidden, rows, x.data());
  project(step, carver.rest(), x, out);
}

}  // namespace coxswain::model
