#pragma once
// LayerPlan: which tensors of a checkpoint belong to a layer, and which of these are quantised: the matrices of
// attention and feed-forward. Norms, biases and what chooses experts stay as they are.
//
// Thread rule: values and pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "model/architecture.h"
#include "quantize/matrix.h"
#include "weights/checkpoint.h"

namespace coxswain::quantize {

// A stored matrix, to be quantised as a whole.
struct Target {
  std::string stored;  // "model.layers.0.mlp.up_proj.weight"
  model::MatrixMap map;
  // model::Linear::tensor of the layer that multiplies it; empty for experts, whose inputs nobody shows.
  std::string seen_as;
  bool is_transposed = false;

  std::string module() const;  // `stored` without ".weight"
};

struct LayerPlan {
  std::vector<Target> targets;
  std::vector<std::string> plain;  // stored names of all the others
};

struct ModelPlan {
  std::vector<LayerPlan> layers;
  std::vector<std::string> outside;  // of no layer
};

// Errors: kUnimplemented, naming a tensor that is no matrix of its own (experts that are stored together).
Result<ModelPlan> plan_of(const model::Architecture& architecture,
                          const weights::Checkpoint& checkpoint);

// Under which `name` of a TensorMap lies in the checkpoint; empty if it does not.
std::string stored_name(const model::TensorMap& tensors,
                        const weights::Checkpoint& checkpoint,
                        const std::string& name);

// A tensor of F32, F16 or BF16, whole.
struct StoredVector {
  weights::StoredType type = weights::StoredType::kF32;
  std::vector<float> values;

  float rounded(float value) const;  // to the nearest that the type has
};
// Errors: kInvalidArgument, naming it, for another type.
Result<StoredVector> read_vector(const weights::Checkpoint& checkpoint, const std::string& stored);
// Values as the type has them.
std::vector<std::byte> bytes_of(weights::StoredType type, const std::vector<float>& values);

// Errors: those of model::WeightReader.
Result<Weights> read_weights(const weights::Checkpoint& checkpoint,
                             const std::vector<std::string>& prefixes,
                             const model::MatrixMap& map);

}  // namespace coxswain::quantize
