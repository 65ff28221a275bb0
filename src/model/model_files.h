#pragma once
// ModelFiles: the config of a model, and its weights once they are asked for, wherever they stand: a folder with
// config.json and *.safetensors, or a GGUF file.
//
// Thread rule: const methods may be called from any thread.

#include <optional>
#include <string>

#include <coxswain/status.h>

#include "json/json.h"
#include "model/architecture.h"
#include "model/gguf_model.h"
#include "weights/checkpoint.h"
#include "weights/stored_quant.h"

namespace coxswain::model {

class ModelFiles {
 public:
  // `path`: a folder, or a file whose name ends in ".gguf". Errors: those of the files.
  static Result<ModelFiles> open(const std::string& path);

  const json::Value& config() const { return gguf_ ? gguf_->config() : config_; }
  const std::string& config_path() const { return config_path_; }  // for messages
  // Errors: those of read_architecture(), with the path before them.
  Result<Architecture> architecture() const;
  // How weights are stored quantised; method kNone for a GGUF file, whose tensors say it themselves.
  const weights::StoredQuant& stored_quant() const { return stored_quant_; }
  // With the derived tensors of weights that are stored quantised. Errors: those of Checkpoint and derive_tensors().
  Result<weights::Checkpoint> open_weights() const;

 private:
  ModelFiles() = default;

  std::string path_;
  std::string config_path_;
  json::Value config_;
  std::optional<GgufModel> gguf_;
  weights::StoredQuant stored_quant_;
};

}  // namespace coxswain::model
