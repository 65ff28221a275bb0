#pragma once
// How many parameters of the matrices of a model a token takes part in: what a step of one token reads, and half of
// what a step multiplies for each.

#include <string>

#include <coxswain/status.h>

namespace coxswain::bench {

struct Parameters {
  double layers = 0;
  double head = 0;
};

// From config.json, for models of llama's shape, dense or with experts as the only MLP. Errors: those of reading it.
Result<Parameters> parameters_of(const std::string& model_dir);

}  // namespace coxswain::bench
