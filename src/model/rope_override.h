#pragma once
// RopeOverride: the rope scaling that whoever serves a model puts in the place of its own, so that it takes longer
// prompts than it was trained with.
//
// Thread rule: values and pure functions.

#include <cstdint>

#include <coxswain/status.h>

#include "model/arch_spec.h"

namespace coxswain::model {

struct RopeOverride {
  RopeScaling scaling = RopeScaling::kLinear;  // or kDynamic
  double factor = 1.0;
  // The model then takes so many positions at least. For dynamic alone, which has no longest sequence of its own.
  std::uint32_t positions_min = 0;

  friend bool operator==(const RopeOverride&, const RopeOverride&) = default;
};

// `arch` then takes `factor` times its positions, or more for dynamic, which counts the old ones as the trained length.
// Where layers with a window have a rope of their own, that one stays. REQUIRES: linear or dynamic.
// Errors: kInvalidArgument naming `rope_scaling` or `rope_factor`: a model without rotary embedding, or with too few
// rotary dimensions; a factor that is not from 1 to kRopeFactorMax, or makes more than kPositionsMax positions.
Status apply(const RopeOverride& override, ArchSpec& arch);

}  // namespace coxswain::model
