#pragma once
// The first layers of a prompt in an engine whose runner has these; what they leave is handed over to an engine that
// has the others (handover.h), which then computes the rest and samples.
//
// Thread rule: any thread; `done` is called once, on the engine's thread, and must not block.

#include <cstdint>
#include <functional>
#include <memory>

#include <coxswain/status.h>

#include "batch/engine.h"

namespace coxswain::batch {

using FirstLayersDone = std::function<void(Result<std::shared_ptr<const ParkedContext>>)>;

// A step for each layer, so that other steps of the engine come in between. What is parked stays until `until`. The
// engine outlives `done`.
// Errors: can_split()'s (layer_steps.h); kInvalidArgument unless 1 <= n_layers < those of the model;
// kResourceExhausted; kUnavailable: the runner was lost.
void compute_first_layers(Engine& engine,
                          GenerationRequest request,
                          std::uint32_t n_layers,
                          TimePoint until,
                          FirstLayersDone done);

}  // namespace coxswain::batch
