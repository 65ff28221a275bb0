#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/scalar_math.h"

namespace coxswain::model {
namespace {

constexpr double kFactorMax = kRopeFactorMax;
constexpr double kThetaMax = 1e12;

double base_frequency(double theta, std::size_t i, std::uint32_t rotary_dim) {
  return 1.0 / base::pow(theta, 2.0 * static_cast<double>(i) / rotary_dim);
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * base::log(factor) + 1.0;
}

// arXiv:2309.00071, section 3.4.
double yarn_attention_factor(ConfigReader& scaling, double factor) {
  if (scaling.has("attention_factor")) return scaling.number("attention_factor", 1e-3, 1e3);
  const double mscale = scaling.number_or("mscale", 0.0, 100.0, 0.0);
  const double mscale_all = scaling.number_or("mscale_all_dim", 0.0, 100.0, 0.0);
  if (mscale > 0.0 && mscale_all > 0.0)
    return yarn_mscale(factor, mscale) / yarn_mscale(factor, mscale_all);
  return yarn_mscale(factor, 1.0);
}

// arXiv:2402.13753, equation 8 as released: sqrt(1 + ln(stretch) / ln(trained length)).
double longrope_attention_factor(ConfigReader& scaling, const RopeSpec& rope) {
  if (scaling.has("attention_factor")) return scaling.number("attention_factor", 1e-3, 1e3);
  if (rope.factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + base::log(rope.factor) / base::log(rope.original_max_positions));
}

void read_scaling(ConfigReader& scaling,
                  const std::string& type,
                  const RopeShape& shape,
                  RopeSpec& rope) {
  const auto factor = [&] { return scaling.number("factor", 1.0, kFactorMax); };
  const double trained = rope.original_max_positions;
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = factor();
  } else if (type == "dynamic") {
    rope.scaling = RopeScaling::kDynamic;
    rope.factor = factor();
    rope.original_max_positions = shape.max_positions;
    if (rope.rotary_dim <= 2)
      scaling.fail("rope_type", "dynamic needs more than two rotary dimensions");
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    if (rope.theta <= 1.0) scaling.fail("rope_theta", "must be above 1 for yarn");
    rope.factor =
        scaling.number_or("factor", 1.0, kFactorMax, std::max(1.0, shape.max_positions / trained));
    rope.beta_fast = scaling.number_or("beta_fast", 1e-3, 1e6, 32.0);
    rope.beta_slow = scaling.number_or("beta_slow", 1e-3, 1e6, 1.0);
    rope.truncate = scaling.flag_or("truncate", true);
    rope.attention_factor = yarn_attention_factor(scaling, rope.factor);
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    rope.factor = factor();
    rope.low_freq_factor = scaling.number("low_freq_factor", 1e-3, 1e6);
    rope.high_freq_factor = scaling.number("high_freq_factor", 1e-3, 1e6);
    if (rope.high_freq_factor <= rope.low_freq_factor)
      scaling.fail("high_freq_factor", "must be above low_freq_factor");
  } else if (type == "longrope" || type == "su") {
    rope.scaling = RopeScaling::kLongRope;
    if (trained < 2.0)
      scaling.fail("original_max_position_embeddings", "must be above 1 for longrope");
    rope.factor = scaling.number_or("factor", 1e-3, kFactorMax, shape.max_positions / trained);
    rope.short_factor = scaling.numbers("short_factor", rope.rotary_dim / 2, 1e-3, kFactorMax);
    rope.long_factor = scaling.numbers("long_factor", rope.rotary_dim / 2, 1e-3, kFactorMax);
    rope.attention_factor = longrope_attention_factor(scaling, rope);
  } else if (type != "default") {
    scaling.unsupported(
        "rope_type",
        "\"" + type + "\" is not supported (default, linear, dynamic, yarn, llama3, longrope)");
  }
}

void yarn_frequencies(const RopeSpec& rope, std::span<float> out) {
  const double dim = rope.rotary_dim;
  const auto correction = [&](double rotations) {
    return dim * base::log(rope.original_max_positions / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * base::log(rope.theta));
  };
  double low = correction(rope.beta_fast);
  double high = correction(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double base = base_frequency(rope.theta, i, rope.rotary_dim);
    const double interpolated = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    out[i] = static_cast<float>(base / rope.factor * interpolated + base * (1.0 - interpolated));
  }
}

void llama3_frequencies(const RopeSpec& rope, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double base = base_frequency(rope.theta, i, rope.rotary_dim);
    const double rotations = rope.original_max_positions * base / (2.0 * std::numbers::pi);
    const double keep = std::clamp(
        (rotations - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor),
        0.0,
        1.0);
    out[i] = static_cast<float>((1.0 - keep) * base / rope.factor + keep * base);
  }
}

}  // namespace

RopeSpec read_rope_parameters(ConfigReader& parameters,
                              const RopeShape& shape,
                              const RopeDefaults& defaults) {
  RopeSpec rope;
  rope.style = defaults.style;
  rope.original_max_positions =
      defaults.original_max_positions > 0.0
          ? defaults.original_max_positions
          : parameters.number_or(
                "original_max_position_embeddings", 2.0, kPositionsMax, shape.max_positions);
  rope.theta = parameters.number_or("rope_theta", 1.0, kThetaMax, defaults.theta);
  const double partial = parameters.number_or("partial_rotary_factor", 0.0, 1.0, defaults.partial);
  if (partial != 1.0 && !defaults.takes_partial)
    parameters.unsupported("partial_rotary_factor", "other than 1 is not supported in this family");
  rope.rotary_dim = static_cast<std::uint32_t>(shape.head_dim * partial);
  if (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0) {
    parameters.fail(
        "partial_rotary_factor",
        "gives " + std::to_string(rope.rotary_dim) + " rotary dimensions, not an even number");
    return rope;
  }
  const std::string old_style = parameters.text_or("type", "default");
  std::string type = parameters.text_or("rope_type", old_style);
  if (defaults.yarn_is_longrope && type == "yarn") type = "longrope";
  read_scaling(parameters, type, shape, rope);
  return rope;
}

RopeSpec read_rope(ConfigReader& config, const RopeShape& shape, const RopeDefaults& defaults) {
  RopeDefaults top = defaults;
  if (!defaults.has_own_names) {
    top.theta = config.number_or("rope_theta", 1.0, kThetaMax, defaults.theta);
    top.partial = config.number_or("partial_rotary_factor", 0.0, 1.0, defaults.partial);
  }
  const json::Value* scaling = config.get("rope_scaling");
  const bool empty_scaling =
      scaling != nullptr && scaling->is_object() && scaling->as_object().size() == 0;
  const bool old_style = scaling != nullptr && !(empty_scaling && config.has("rope_parameters"));
  const std::string_view field = old_style ? "rope_scaling" : "rope_parameters";
  if (!config.has(field)) {
    ConfigReader empty = ConfigReader::empty();
    RopeSpec rope = read_rope_parameters(empty, shape, top);
    config.join(empty);
    return rope;
  }
  ConfigReader parameters = config.object(field);
  // Such members would be left unread here.
  for (const std::string_view kind : {"full_attention", "sliding_attention", "chunked_attention"}) {
    if (parameters.has(kind))
      parameters.unsupported(kind,
                             "(a rope for one kind of layer) is not supported in this family");
  }
  // Some families keep the trained length beside the scaling.
  top.original_max_positions = config.number_or(
      "original_max_position_embeddings", 2.0, kPositionsMax, defaults.original_max_positions);
  RopeSpec rope = read_rope_parameters(parameters, shape, top);
  config.join(parameters);
  return rope;
}

void rope_frequencies(const RopeSpec& rope, std::uint32_t length, std::span<float> out) {
  double theta = rope.theta;
  switch (rope.scaling) {
    case RopeScaling::kYarn:
      return yarn_frequencies(rope, out);
    case RopeScaling::kLlama3:
      return llama3_frequencies(rope, out);
    case RopeScaling::kDynamic:
      if (length > rope.original_max_positions) {
        const double stretch =
            rope.factor * length / rope.original_max_positions - (rope.factor - 1.0);
        theta *= base::pow(stretch, rope.rotary_dim / (rope.rotary_dim - 2.0));
      }
      break;
    case RopeScaling::kNone:
    case RopeScaling::kLinear:
    case RopeScaling::kLongRope:
      break;
  }
  const std::vector<double>& factors =
      length > rope.original_max_positions ? rope.long_factor : rope.short_factor;
  for (std::size_t i = 0; i < out.size(); ++i) {
    double frequency = base_frequency(theta, i, rope.rotary_dim);
    if (rope.scaling == RopeScaling::kLinear) frequency /= rope.factor;
    if (rope.scaling == RopeScaling::kLongRope) frequency /= factors[i];
    out[i] = static_cast<float>(frequency);
  }
}

RopeSwitch rope_switch(const RopeSpec& rope) {
  const auto length = static_cast<std::uint32_t>(rope.original_max_positions);
  if (rope.scaling == RopeScaling::kDynamic) return {length, true};
  if (rope.scaling == RopeScaling::kLongRope) return {length, false};
  return {};
}

}  // namespace coxswain::model
