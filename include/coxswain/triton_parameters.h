#pragma once
// The parameters that operators of Triton's TensorRT-LLM backend know, as options of a BatchManager.
//
// Each name of that backend is known. What we have is honoured; what changes no answer of ours is accepted as it is;
// what we do not have is accepted at the backend's default, which asks for nothing, and refused otherwise. The table
// is in docs/batch-manager.md.
//
// Thread rule: values, a pure function.

#include <cstdint>
#include <string>
#include <string_view>

#include <coxswain/batch_manager.h>
#include <coxswain/capacity_policy.h>
#include <coxswain/export.h>
#include <coxswain/status.h>

namespace coxswain {

struct TritonParameters {
  std::string gpt_model_path = {};  // empty if it was not given
  BatchingType type = BatchingType::kInflightFused;
  std::int32_t max_beam_width = 1;
  CapacityPolicy policy = CapacityPolicy::kGuaranteedNoEvict;
  BatchManagerOptions options = {};
};

// `text`: a JSON object of strings, numbers and booleans, or of objects with a string_value, as Triton writes its model
// configuration; or lines `name=value` or `name: value`, # begins a comment. A value that is empty, or a placeholder of
// a template that nobody filled in (`${name}`), was not given.
// Errors: kInvalidArgument naming the parameter, what is legal and what was given, or what is near an unknown name.
COXSWAIN_EXPORT Result<TritonParameters> parse_triton_parameters(std::string_view text);

}  // namespace coxswain
