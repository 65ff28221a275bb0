#include "model/model_files.h"

#include <utility>

#include "model/families/family.h"
#include "model/model.h"
#include "model/stored_quant_config.h"

namespace coxswain::model {

Result<ModelFiles> ModelFiles::open(const std::string& path) {
  ModelFiles out;
  out.path_ = path;
  if (path.ends_with(".gguf")) {
    out.config_path_ = path;
    COXSWAIN_ASSIGN_OR_RETURN(out.gguf_, GgufModel::open(path));
    return out;
  }
  out.config_path_ = path + "/config.json";
  COXSWAIN_ASSIGN_OR_RETURN(out.config_, json::parse_file(out.config_path_, kConfigFileBytesMax));
  auto stored = read_stored_quant(path, out.config_);
  if (!stored.ok()) return stored.status().with_context(path);
  out.stored_quant_ = std::move(stored.value());
  return out;
}

Result<Architecture> ModelFiles::architecture() const {
  auto out = read_architecture(config());
  if (!out.ok()) return out.status().with_context(path_);
  if (gguf_) gguf_->adjust(out.value());
  return out;
}

Result<weights::Checkpoint> ModelFiles::open_weights() const {
  if (gguf_) return gguf_->open_weights();
  COXSWAIN_ASSIGN_OR_RETURN(weights::Checkpoint out, weights::Checkpoint::open(path_));
  if (stored_quant_.method != weights::StoredMethod::kNone)
    COXSWAIN_RETURN_IF_ERROR(weights::derive_tensors(stored_quant_, out));
  return out;
}

}  // namespace coxswain::model
