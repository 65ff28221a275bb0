#pragma once
// The kind "models" of coxswain-conformance: every model with reference answers below the data folder.
//
//   DIR/goldens/models/*
//     Tiny random models of every family: logits, positions, hidden states and greedy ids.
//
//   DIR/models/*
//     Small trained models: prompt log-probabilities and greedy ids.
//
// Computed in float32 with a float32 cache. Formats: the README files beside the data.
//
// Thread rule: one thread; the kernels' pool is inside.

#include "conformance/conformance.h"

namespace coxswain::conformance {

ConformanceCounts run_models_conformance(const ConformanceOptions& options);

}  // namespace coxswain::conformance
