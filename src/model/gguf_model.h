#pragma once
// Models in GGUF files: their keys as the config of the checkpoint that they were made from, their tensors under its
// names. So the family files need not know where a model comes from.
//
// Keys and names: ggml's docs/gguf.md, and gguf-py's constants.py and tensor_mapping.py, the list that converters use.
//
// Thread rule: const methods may be called from any thread.

#include <string>

#include <coxswain/status.h>

#include "gguf/header.h"
#include "json/json.h"
#include "model/architecture.h"
#include "weights/checkpoint.h"

namespace coxswain::model {

struct GgufArchitecture;

class GgufModel {
 public:
  // Of all files of a model that is split over several; `path` is any of them.
  // Errors: those of gguf::Header::read; kUnimplemented, naming the key and its value, for what this program does not
  // compute; kInvalidArgument, naming the key, for one that is missing or senseless.
  static Result<GgufModel> open(const std::string& path);

  const json::Value& config() const { return config_; }
  // Errors: those of weights::open_gguf.
  Result<weights::Checkpoint> open_weights() const;
  // What converters have changed in the weights: rows of q and k in interleaved order, norms with their offset added.
  void adjust(Architecture& architecture) const;

 private:
  struct Part {
    std::string path;
    gguf::Header header;
  };
  GgufModel() = default;
  Status read_parts(const std::string& path);
  Status make_config();

  std::vector<Part> parts_;  // keys are those of the first
  const GgufArchitecture* architecture_ = nullptr;
  json::Value config_;
};

}  // namespace coxswain::model
