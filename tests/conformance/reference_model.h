#pragma once
// A model beside its reference answers: loaded to be fed sequence by sequence, in float32 with a float32 cache, and the
// comparisons of what it computes.
//
// Thread rule: one thread; the kernels' pool is inside.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "conformance/conformance.h"
#include "kernels/exec_context.h"
#include "model/model.h"
#include "model/single_sequence.h"

namespace coxswain::conformance {

struct ReferenceModel {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<kernels::ExecContext> exec;
  std::optional<model::SingleSequence> sequence;
  std::size_t tokens_max = 0;
};

// `path`: a folder or a GGUF file. Room for sequences of `tokens_max`. Weights are float32, or what the file has.
Result<ReferenceModel> load_reference_model(const ConformanceOptions& options,
                                            const std::string& path,
                                            std::uint32_t tokens_max,
                                            bool as_stored = false);

Status mismatch(const std::string& what);

// `worst` grows to the largest difference.
Status compare(std::span<const float> got,
               std::span<const float> expected,
               double tolerance,
               double& worst,
               const std::string& what);

double log_sum_exp(std::span<const float> logits);
TokenId argmax(std::span<const float> logits);

}  // namespace coxswain::conformance
