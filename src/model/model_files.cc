#include "model/model_files.h"

#include <utility>

#include "model/families/family.h"
#include "model/model.h"

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
  return out;
}

Result<Architecture> ModelFiles::architecture() const {
  auto out = read_architecture(config());
  if (!out.ok()) return out.status().with_context(path_);
  if (gguf_) gguf_->adjust(out.value());
  return out;
}

Result<weights::Checkpoint> ModelFiles::open_weights() const {
  return gguf_ ? gguf_->open_weights() : weights::Checkpoint::open(path_);
}

}  // namespace coxswain::model
