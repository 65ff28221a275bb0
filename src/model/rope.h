#pragma once
// Rotary frequencies, from config.json. rope_tables.h makes the angles of a step from them.
//
// Two scalings depend on the length of a sequence (dynamic, longrope). The length is that of SequenceSpec::rope_length,
// decided once for a sequence, so its angles never change while it runs.
//
// Thread rule: pure functions.

#include <cstdint>
#include <span>

#include "model/arch_spec.h"
#include "model/config_reader.h"

namespace coxswain::model {

inline constexpr double kRopeFactorMax = 1e6;

struct RopeDefaults {
  double theta = 10000.0;
  double partial = 1.0;        // share of head_dim that turns
  bool takes_partial = false;  // the family knows partial_rotary_factor
  bool has_own_names = false;  // theta and partial stand under names of the family's own
  // Trained length that stands beside the scaling and wins over the one inside it; 0 = none.
  double original_max_positions = 0.0;
  bool yarn_is_longrope = false;  // as the first configs of phi3 called it
  kernels::RopeStyle style = kernels::RopeStyle::kHalves;
};

struct RopeShape {
  std::uint32_t head_dim = 0;
  std::uint32_t max_positions = 0;
};

// Reads rope_theta, partial_rotary_factor and rope_scaling (published configs) or rope_parameters (newer ones). Where
// both are there, rope_scaling wins unless it is empty.
RopeSpec read_rope(ConfigReader& config, const RopeShape& shape, const RopeDefaults& defaults);

// The same from one object of rope_parameters (families with a set of parameters for each kind of layer).
RopeSpec read_rope_parameters(ConfigReader& parameters,
                              const RopeShape& shape,
                              const RopeDefaults& defaults);

// Frequencies for a sequence of `length` tokens into `out` [rotary_dim / 2].
void rope_frequencies(const RopeSpec& rope, std::uint32_t length, std::span<float> out);

// Length above which frequencies change, 0 = never; `exact`: every longer length has its own.
struct RopeSwitch {
  std::uint32_t length = 0;
  bool exact = false;
};
RopeSwitch rope_switch(const RopeSpec& rope);

}  // namespace coxswain::model
