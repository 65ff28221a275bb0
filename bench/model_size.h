#pragma once
// How many parameters the matrices of a model have: what a step reads, and half of what it
// multiplies for each token.

#include <string>

#include <coxswain/status.h>

namespace coxswain::bench {

struct Parameters {
  double layers = 0;
  double head = 0;
};

// From config.json, for dense models of llama's shape. Errors: those of reading the file.
Result<Parameters> parameters_of(const std::string& model_dir);

}  // namespace coxswain::bench
