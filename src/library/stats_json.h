#pragma once
// IterationStats as JSON, under the names of TensorRT-LLM's Executor.
//
// Thread rule: pure functions.

#include <span>
#include <string>

#include <coxswain/stats.h>

namespace coxswain::library {

// An array, one object for each.
std::string json_of(std::span<const IterationStats> iterations);

}  // namespace coxswain::library
