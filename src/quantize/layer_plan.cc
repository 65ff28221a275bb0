#include "quantize/layer_plan.h"

#include <cstring>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "kernels/formats/widen.h"
#include "model/weight_reader.h"
#include "tensor/dtype.h"

namespace coxswain::quantize {
namespace {

using model::MatrixMap;
using model::Rows;

constexpr std::string_view kWeight = ".weight";

// Name of the layer's matrices and what they are seen as.
struct Multiplied {
  const MatrixMap* map;
  bool is_seen;
};

std::vector<Multiplied> multiplied(const model::LayerMap& layer) {
  std::vector<Multiplied> out;
  std::visit(
      [&](const auto& mixer) {
        out.push_back({&mixer.qkv, true});
        out.push_back({&mixer.out, true});
      },
      layer.mixer);
  if (const auto* mlp = std::get_if<model::MlpMap>(&layer.feed_forward)) {
    out.push_back({&mlp->up, true});
    out.push_back({&mlp->down, true});
  } else if (const auto* experts = std::get_if<model::ExpertsMap>(&layer.feed_forward)) {
    for (const model::MlpMap& expert : experts->experts) {
      out.push_back({&expert.up, false});
      out.push_back({&expert.down, false});
    }
    out.push_back({&experts->shared.up, false});
    out.push_back({&experts->shared.down, false});
  }
  return out;
}

class Planner {
 public:
  Planner(const model::TensorMap& tensors, const weights::Checkpoint& checkpoint)
      : tensors_(tensors), checkpoint_(checkpoint) {}

  Result<LayerPlan> layer(const model::LayerMap& layer) {
    LayerPlan out;
    for (const Multiplied& each : multiplied(layer)) {
      for (const Rows& rows : each.map->rows)
        COXSWAIN_RETURN_IF_ERROR(add_target(*each.map, rows, each.is_seen, out));
    }
    Names names{*this, {}};
    layer.visit(names);
    for (const std::string& name : names.found) {
      if (taken_.insert(name).second) out.plain.push_back(name);
    }
    return out;
  }

  std::vector<std::string> rest() const {
    std::vector<std::string> out;
    for (const weights::TensorFile& file : checkpoint_.files()) {
      for (const weights::TensorInfo& tensor : file.tensors()) {
        if (!taken_.contains(tensor.name)) out.push_back(tensor.name);
      }
    }
    return out;
  }

 private:
  // Gathers the stored names of what a map visits.
  struct Names {
    const Planner& planner;
    std::vector<std::string> found;

    void add(const std::string& name) {
      if (std::string stored = planner.stored_name(name); !stored.empty())
        found.push_back(std::move(stored));
    }
    void operator()(const MatrixMap& map) {
      for (const Rows& rows : map.rows) {
        add(rows.tensor);
        add(rows.otherwise);
        add(rows.bias);
      }
    }
    void operator()(const model::VectorMap& map) {
      for (const std::string& name : map.tensors) add(name);
    }
    void operator()(const model::NormMap& map) {
      (*this)(map.weight);
      (*this)(map.bias);
    }
  };

  std::string stored_name(const std::string& name) const {
    return quantize::stored_name(tensors_, checkpoint_, name);
  }

  Status add_target(const MatrixMap& map, const Rows& rows, bool is_seen, LayerPlan& out) {
    const std::string stored = stored_name(rows.tensor);
    const bool is_matrix = rows.shape.size() == 2 && rows.index == 0 && stored.ends_with(kWeight);
    if (!is_matrix)
      return {Code::kUnimplemented,
              "tensor \"" + rows.tensor +
                  "\" is not there, or no matrix of its own, and cannot be quantised"};
    if (!taken_.insert(stored).second) return {};
    Target target;
    target.stored = stored;
    target.is_transposed = rows.transposed;
    if (is_seen) target.seen_as = map.rows.front().tensor;
    Rows whole = rows;
    whole.first = 0;
    whole.count = rows.transposed ? rows.shape.back() : rows.shape.front();
    whole.step = 1;
    whole.bias.clear();
    target.map = {{std::move(whole)}, map.k};
    out.targets.push_back(std::move(target));
    return {};
  }

  const model::TensorMap& tensors_;
  const weights::Checkpoint& checkpoint_;
  std::set<std::string> taken_;
};

}  // namespace

std::string Target::module() const {
  return stored.substr(0, stored.size() - kWeight.size());
}

std::string stored_name(const model::TensorMap& tensors,
                        const weights::Checkpoint& checkpoint,
                        const std::string& name) {
  if (name.empty()) return {};
  for (const std::string& prefix : tensors.prefixes) {
    if (checkpoint.find(prefix + name)) return prefix + name;
  }
  return {};
}

float StoredVector::rounded(float value) const {
  if (type == weights::StoredType::kBf16)
    return tensor::bf16_to_float(tensor::float_to_bf16(value));
  if (type == weights::StoredType::kF16) return tensor::f16_to_float(tensor::float_to_f16(value));
  return value;
}

Result<StoredVector> read_vector(const weights::Checkpoint& checkpoint, const std::string& stored) {
  const auto at = checkpoint.find(stored);
  const auto type = weights::float_type(at.tensor->type);
  if (!type)
    return invalid_argument("tensor \"" + stored + "\" has type " +
                            std::string(at.tensor->type_name()) + ", not F32, F16 or BF16");
  std::vector<std::byte> bytes(at.tensor->n_bytes());
  COXSWAIN_RETURN_IF_ERROR(at.read(0, bytes));
  StoredVector out{at.tensor->type, std::vector<float>(bytes.size() / tensor::size_of(*type))};
  kernels::widen(bytes.data(), *type, out.values.size(), out.values.data());
  return out;
}

std::vector<std::byte> bytes_of(weights::StoredType type, const std::vector<float>& values) {
  const auto stored = *weights::float_type(type);
  std::vector<std::byte> out(values.size() * tensor::size_of(stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::byte* const to = out.data() + i * tensor::size_of(stored);
    if (stored == tensor::DType::kF32) {
      std::memcpy(to, &values[i], sizeof(float));
      continue;
    }
    const std::uint16_t bits = stored == tensor::DType::kBf16 ? tensor::float_to_bf16(values[i])
                                                              : tensor::float_to_f16(values[i]);
    std::memcpy(to, &bits, sizeof(bits));
  }
  return out;
}

Result<ModelPlan> plan_of(const model::Architecture& architecture,
                          const weights::Checkpoint& checkpoint) {
  Planner planner(architecture.tensors, checkpoint);
  ModelPlan out;
  for (const model::LayerMap& layer : architecture.tensors.layers) {
    COXSWAIN_ASSIGN_OR_RETURN(LayerPlan plan, planner.layer(layer));
    out.layers.push_back(std::move(plan));
  }
  out.outside = planner.rest();
  return out;
}

Result<Weights> read_weights(const weights::Checkpoint& checkpoint,
                             const std::vector<std::string>& prefixes,
                             const MatrixMap& map) {
  Weights out{map.n(), map.k, std::vector<float>(map.n() * map.k)};
  model::WeightReader reader(checkpoint, prefixes, {}, nullptr);
  COXSWAIN_RETURN_IF_ERROR(
      reader.for_each_slice(map, [&](std::size_t row, const kernels::DenseRows& rows) {
        kernels::widen(rows.data, rows.type, rows.n_rows * map.k, out.row(row).data());
      }));
  return out;
}

}  // namespace coxswain::quantize
