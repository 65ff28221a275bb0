#pragma once
// Checkpoint: all tensors of a model, in one file (model.safetensors) or several (model.safetensors.index.json), or in
// files that somebody else has opened.
//
// Thread rule: const methods may be called from any thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <coxswain/status.h>

#include "weights/derived_tensor.h"
#include "weights/tensor_file.h"

namespace coxswain::weights {

class Checkpoint {
 public:
  // Errors: kNotFound if the folder holds no safetensors weights; kDataLoss naming file, tensor and rule.
  static Result<Checkpoint> open(const std::string& model_dir);

  // Of files that are open. Errors: kDataLoss, naming a tensor that two of them have.
  static Result<Checkpoint> of(std::vector<TensorFile> files);

  // A tensor and the file that holds it; null if there is no such tensor. A derived one has no bytes to read().
  struct Located {
    const TensorInfo* tensor = nullptr;
    const TensorFile* file = nullptr;
    const DerivedTensor* derived = nullptr;
    explicit operator bool() const { return tensor != nullptr; }
    Status read(std::uint64_t offset, std::span<std::byte> out) const {
      return file->read(*tensor, offset, out);
    }
  };
  Located find(std::string_view name) const;

  // Its name then stands for it, even where that is also the name of one of its parts.
  // Errors: kInvalidArgument, naming the tensor, if another tensor has the name.
  Status add_derived(DerivedTensor derived);

  // Whether a weight is stored as anything but floats.
  bool has_quantised() const;

  std::span<const TensorFile> files() const { return files_; }
  std::uint64_t n_bytes() const;  // of all tensors

 private:
  Checkpoint() = default;
  Status open_file(const std::string& path);
  Status add_file(TensorFile file);
  Status open_sharded(const std::string& model_dir, const std::string& index_path);

  std::vector<TensorFile> files_;
  // Name of a tensor -> its file and its place there.
  std::unordered_map<std::string, std::pair<std::size_t, std::size_t>> index_;
  std::unordered_map<std::string, DerivedTensor> derived_;
};

}  // namespace coxswain::weights
