#pragma once
// The keys of a GGUF file as the config.json of the checkpoint that it was made from. gguf_export.h is the other way.
//
// Thread rule: a pure function.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "gguf/header.h"
#include "json/json.h"
#include "model/gguf_names.h"

namespace coxswain::model {

// Of all files of a model.
struct GgufTensors {
  std::function<const gguf::TensorInfo*(std::string_view name)> find;  // null: there is none
  // The values of a small one in F32 that is there.
  std::function<Result<std::vector<float>>(std::string_view name)> floats;
};

// `path` is for messages. Errors: kUnimplemented, naming the key and its value, for what this program does not compute;
// kInvalidArgument, naming the key, for one that is missing or senseless.
Result<json::Value> gguf_config(const std::string& path,
                                const gguf::Header& header,
                                const GgufArchitecture& architecture,
                                const GgufTensors& tensors);

}  // namespace coxswain::model
