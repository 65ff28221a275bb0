#pragma once
// Norms over the width of a row, or over single heads inside it.
//
// Thread rule: values.

#include <cstddef>
#include <cstdint>

#include "model/tensor_map.h"
#include "model/weight_parts.h"

namespace coxswain::model {

struct StepContext;

enum class NormKind : std::uint8_t { kRms, kLayer };

struct NormSpec {
  NormKind kind = NormKind::kRms;
  float epsilon = 1e-5F;
  float weight_offset = 0.0F;  // 1 where files store weight - 1
};

// Vectors of n values side by side in rows of `stride`: groups of them in each row.
struct NormedRows {
  float* data = nullptr;
  std::size_t stride = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t groups = 1;
  bool weight_per_group = false;
};

// y = norm(x) over [m, hidden]; y may be x.
void run_norm(const StepContext& step,
              const NormSpec& spec,
              const NormWeights& w,
              const float* x,
              float* y,
              std::size_t m);
// The same in place.
void run_norm(const StepContext& step,
              const NormSpec& spec,
              const NormWeights& w,
              const NormedRows& rows);

}  // namespace coxswain::model
