#include "model/rope_override.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include "model/config_reader.h"
#include "model/rope.h"

namespace coxswain::model {
namespace {

std::string text(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

Status wrong_factor(const std::string& rule, double given) {
  return invalid_argument("`rope_factor` must be " + rule + ". Given: " + text(given),
                          "rope_factor");
}

Status wrong_model(const std::string& why) {
  return invalid_argument("`rope_scaling` and `rope_factor` must be left out: " + why,
                          "rope_scaling");
}

}  // namespace

Status apply(const RopeOverride& override, ArchSpec& arch) {
  if (!(override.factor >= 1.0 && override.factor <= kRopeFactorMax))
    return wrong_factor("a number from 1 to " + text(kRopeFactorMax), override.factor);
  if (arch.ropes.empty()) return wrong_model("this model has no rotary embedding");
  const RopeSpec& own = arch.ropes.front();  // that of the layers that see everything
  if (override.scaling == RopeScaling::kDynamic && own.rotary_dim <= 2)
    return wrong_model("dynamic needs more than two rotary dimensions, and this model has two");
  const double positions = std::floor(arch.max_positions * override.factor);
  if (positions > kPositionsMax) {
    return wrong_factor("at most " + text(static_cast<double>(kPositionsMax) / arch.max_positions) +
                            " for a model with " + std::to_string(arch.max_positions) +
                            " positions, as " + std::to_string(kPositionsMax) + " are the limit",
                        override.factor);
  }
  RopeSpec rope;
  rope.scaling = override.scaling;
  rope.style = own.style;
  rope.rotary_dim = own.rotary_dim;
  rope.theta = own.theta;
  rope.factor = override.factor;
  rope.original_max_positions = arch.max_positions;
  arch.ropes.front() = std::move(rope);
  arch.max_positions = static_cast<std::uint32_t>(positions);
  if (override.scaling == RopeScaling::kDynamic)
    arch.max_positions =
        std::max(arch.max_positions, std::min(override.positions_min, kPositionsMax));
  return {};
}

}  // namespace coxswain::model
