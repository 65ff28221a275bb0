#include "quantize/awq.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

namespace coxswain::quantize {
namespace {

constexpr int kGridSteps = 20;           // exponents of the mean magnitude, from 0 to 0.95
constexpr std::uint64_t kRowsMax = 128;  // of a matrix, that the search looks at

bool is_before(const model::ArchSpec& arch) {
  return arch.norm_before && arch.placement == model::NormPlacement::kBefore &&
         !arch.residual_from_norm;
}

// A parallel layer with one norm has two blocks behind it.
bool norm_is_of_one_block(const model::ArchSpec& arch) {
  return is_before(arch) && (!arch.parallel || arch.parallel_feed_forward_norm);
}

// s = mean^exponent, around 1.
std::vector<float> divisors_of(const InputMoments& moments, int step) {
  const double exponent = static_cast<double>(step) / kGridSteps;
  std::vector<double> out(moments.k());
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double mean = moments.magnitudes()[i] / static_cast<double>(moments.n_rows());
    out[i] = std::max(std::pow(mean, exponent), 1e-4);
    low = std::min(low, out[i]);
    high = std::max(high, out[i]);
  }
  const double middle = std::sqrt(low * high);
  std::vector<float> divisors;
  divisors.reserve(out.size());
  for (const double value : out) divisors.push_back(static_cast<float>(value / middle));
  return divisors;
}

// Of one output, whose inputs are divided and weights multiplied by `divisors`.
double error_of_row(std::span<const float> weights,
                    const std::vector<float>& divisors,
                    const InputMoments& moments,
                    const AwqOptions& options) {
  QuantisedMatrix rounded =
      QuantisedMatrix::of(options.kind, 1, weights.size(), options.group_size);
  std::vector<float> values(weights.begin(), weights.end());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= divisors[i];
  round_row(values, 0, rounded);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = weights[i] - rounded.value(0, i) / divisors[i];
  return moments.error_of(values);
}

std::vector<const Weights*> pointers_to(const std::vector<Weights>& matrices) {
  std::vector<const Weights*> out;
  out.reserve(matrices.size());
  for (const Weights& each : matrices) out.push_back(&each);
  return out;
}

}  // namespace

void AwqFolding::apply(const std::string& stored, Weights& weights) const {
  const auto columns = inputs.find(stored);
  const auto rows = outputs.find(stored);
  for (std::uint64_t r = 0; r < weights.n; ++r) {
    const std::span<float> row = weights.row(r);
    for (std::uint64_t i = 0; i < weights.k; ++i) {
      if (columns != inputs.end()) row[i] *= columns->second[i];
      if (rows != outputs.end()) row[i] /= rows->second[r];
    }
  }
}

std::vector<float> search_divisors(const std::vector<const Weights*>& matrices,
                                   const InputMoments& moments,
                                   const AwqOptions& options,
                                   base::ThreadPool& pool) {
  std::vector<std::span<const float>> rows;
  for (const Weights* const matrix : matrices) {
    const std::uint64_t step = (matrix->n + kRowsMax - 1) / kRowsMax;
    for (std::uint64_t i = 0; i < matrix->n; i += step) rows.push_back(matrix->row(i));
  }
  std::vector<float> best;
  double least = std::numeric_limits<double>::infinity();
  std::vector<double> errors(rows.size());
  for (int step = 0; step < kGridSteps; ++step) {
    std::vector<float> divisors = divisors_of(moments, step);
    pool.run(rows.size(), [&](std::size_t i, std::size_t) {
      errors[i] = error_of_row(rows[i], divisors, moments, options);
    });
    double sum = 0;
    for (const double error : errors) sum += error;
    if (sum >= least) continue;
    least = sum;
    best = std::move(divisors);
  }
  return best;
}

bool AwqLayer::folds(const model::ArchSpec& arch) {
  return norm_is_of_one_block(arch);
}

Result<std::vector<Weights>> AwqLayer::weights_seen_as(const LayerPlan& plan,
                                                       const std::string& seen_as) const {
  std::vector<Weights> out;
  for (const Target& target : plan.targets) {
    if (target.seen_as != seen_as) continue;
    COXSWAIN_ASSIGN_OR_RETURN(
        Weights weights, read_weights(checkpoint_, architecture_.tensors.prefixes, target.map));
    out.push_back(std::move(weights));
  }
  return out;
}

Status AwqLayer::fold_norm(const model::NormMap& norm,
                           const std::string& seen_as,
                           const LayerPlan& plan,
                           const Moments& moments,
                           AwqFolding& out) const {
  if (norm.weight.tensors.size() != 1) return {};
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<Weights> matrices, weights_seen_as(plan, seen_as));
  std::vector<float> divisors =
      search_divisors(pointers_to(matrices), moments.at(seen_as), options_, pool_);
  const auto stored = [&](const std::string& name) {
    return stored_name(architecture_.tensors, checkpoint_, name);
  };
  const std::string weight = stored(norm.weight.tensors.front());
  COXSWAIN_ASSIGN_OR_RETURN(StoredVector values, read_vector(checkpoint_, weight));
  const float offset = architecture_.arch.norm.weight_offset;
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    const float whole = values.values[i] + offset;
    // What the file can hold decides: the matrices get exactly what it leaves.
    values.values[i] = values.rounded(whole / divisors[i] - offset);
    const float left = values.values[i] + offset;
    divisors[i] = whole == 0.0F || left == 0.0F ? 1.0F : whole / left;
    if (left == 0.0F) values.values[i] = whole - offset;
  }
  out.plain[weight] = std::move(values.values);
  for (const std::string& name : norm.bias.tensors) {
    COXSWAIN_ASSIGN_OR_RETURN(StoredVector bias, read_vector(checkpoint_, stored(name)));
    for (std::size_t i = 0; i < divisors.size(); ++i) bias.values[i] /= divisors[i];
    out.plain[stored(name)] = std::move(bias.values);
  }
  for (const Target& target : plan.targets) {
    if (target.seen_as == seen_as) out.inputs[target.stored] = divisors;
  }
  return {};
}

Status AwqLayer::fold_up(const model::MlpMap& map,
                         std::uint64_t intermediate,
                         const LayerPlan& plan,
                         const Moments& moments,
                         AwqFolding& out) const {
  const std::string seen_as = map.down.rows.front().tensor;
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<Weights> matrices, weights_seen_as(plan, seen_as));
  const std::vector<float> divisors =
      search_divisors(pointers_to(matrices), moments.at(seen_as), options_, pool_);
  for (const Target& target : plan.targets) {
    if (target.seen_as == seen_as) out.inputs[target.stored] = divisors;
  }
  std::uint64_t at = 0;  // gate rows come first
  for (const model::Rows& rows : map.up.rows) {
    const auto stored = stored_name(architecture_.tensors, checkpoint_, rows.tensor);
    const std::string bias = stored_name(architecture_.tensors, checkpoint_, rows.bias);
    std::vector<float>& of_rows = out.outputs[stored];
    of_rows.resize(rows.transposed ? rows.shape.back() : rows.shape.front(), 1.0F);
    if (!bias.empty() && !out.plain.contains(bias)) {
      COXSWAIN_ASSIGN_OR_RETURN(StoredVector values, read_vector(checkpoint_, bias));
      out.plain[bias] = std::move(values.values);
    }
    for (std::uint64_t i = 0; i < rows.count; ++i, ++at) {
      if (at < intermediate) continue;
      const std::uint64_t row = rows.first + i * rows.step;
      of_rows[row] = divisors[at - intermediate];
      if (!bias.empty()) out.plain[bias][row] /= divisors[at - intermediate];
    }
  }
  return {};
}

Result<AwqFolding> AwqLayer::search(std::size_t index,
                                    const LayerPlan& plan,
                                    const Moments& moments) const {
  const model::LayerMap& layer = architecture_.tensors.layers[index];
  const model::MlpSpec& mlp = architecture_.arch.layers[index].mlp();
  AwqFolding out;
  COXSWAIN_RETURN_IF_ERROR(
      fold_norm(layer.mixer_norm, layer.attention().qkv.rows.front().tensor, plan, moments, out));
  COXSWAIN_RETURN_IF_ERROR(
      fold_norm(layer.feed_forward_norm, layer.mlp().up.rows.front().tensor, plan, moments, out));
  if (mlp.gate == model::GateKind::kGated)
    COXSWAIN_RETURN_IF_ERROR(fold_up(layer.mlp(), mlp.intermediate, plan, moments, out));
  return out;
}

}  // namespace coxswain::quantize
