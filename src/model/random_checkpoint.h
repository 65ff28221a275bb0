#pragma once
// Writes a checkpoint of random weights for any config that a family can read: for benchmarks of a
// shape whose weights are not at hand, and for tests.
//
// Same config, type and seed: same bytes. Norms are near one, matrices have a spread of 1 /
// sqrt(inputs), so that values neither die out nor grow with depth.
//
// Thread rule: one thread.

#include <cstdint>
#include <functional>
#include <string>

#include <coxswain/status.h>

#include "json/json.h"
#include "tensor/dtype.h"

namespace coxswain::model {

struct RandomCheckpointOptions {
  std::string dir;  // must exist; config.json and model.safetensors are written there
  tensor::DType type = tensor::DType::kBf16;
  std::uint64_t seed = 1;
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // bytes
};

// Errors: those of the config; kResourceExhausted if the disk is full.
Status write_random_checkpoint(const json::Value& config, const RandomCheckpointOptions& options);

}  // namespace coxswain::model
