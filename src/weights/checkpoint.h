#pragma once
// Checkpoint: all tensors of a model folder, in one file (model.safetensors)
// or several (model.safetensors.index.json).
//
// Thread rule: const methods may be called from any thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <coxswain/status.h>

#include "weights/safetensors.h"

namespace coxswain::weights {

class Checkpoint {
 public:
  // Errors: kNotFound if the folder holds no safetensors weights; kDataLoss naming file, tensor and rule.
  static Result<Checkpoint> open(const std::string& model_dir);

  // A tensor and the file that holds it; null if there is no such tensor.
  struct Located {
    const TensorInfo* tensor = nullptr;
    const SafetensorsFile* file = nullptr;
    explicit operator bool() const { return tensor != nullptr; }
    Status read(std::uint64_t offset, std::span<std::byte> out) const {
      return file->read(*tensor, offset, out);
    }
  };
  Located find(std::string_view name) const;

  std::span<const SafetensorsFile> files() const { return files_; }
  std::uint64_t n_bytes() const;  // of all tensors

 private:
  Checkpoint() = default;
  Status add_file(const std::string& path);
  Status open_sharded(const std::string& model_dir, const std::string& index_path);

  std::vector<SafetensorsFile> files_;
  // Name of a tensor -> its file and its place there.
  std::unordered_map<std::string, std::pair<std::size_t, std::size_t>> index_;
};

}  // namespace coxswain::weights
