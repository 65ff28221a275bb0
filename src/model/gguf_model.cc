#include "model/gguf_model.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "model/gguf_config.h"
#include "model/gguf_names.h"
#include "weights/gguf_file.h"

namespace coxswain::model {
namespace {

// "name-00002-of-00005.gguf": the files of a split model, in order. One file is its own only part.
Result<std::vector<std::string>> parts_of(const std::string& path, const gguf::Header& header) {
  const double count = header.number("split.count").value_or(1);
  if (count <= 1) return std::vector<std::string>{path};
  constexpr std::size_t kEndingLength = std::string_view("-00001-of-00005.gguf").size();
  constexpr double kPartsMax = 99'999;
  if (count > kPartsMax || path.size() <= kEndingLength)
    return Status(Code::kDataLoss, path + ": split.count and the name of the file do not fit");
  std::vector<std::string> out;
  for (int i = 1; i <= static_cast<int>(count); ++i) {
    std::array<char, 32> ending{};
    std::snprintf(ending.data(), ending.size(), "-%05d-of-%05d.gguf", i, static_cast<int>(count));
    out.push_back(path.substr(0, path.size() - kEndingLength) + ending.data());
  }
  if (std::ranges::find(out, path) == out.end())
    return Status(Code::kDataLoss, path + ": split.count and the name of the file do not fit");
  return out;
}

}  // namespace

Result<GgufModel> GgufModel::open(const std::string& path) {
  GgufModel out;
  COXSWAIN_RETURN_IF_ERROR(out.read_parts(path));
  const std::string_view name = out.parts_.front().header.text("general.architecture");
  const auto architectures = gguf_architectures();
  const auto found = std::ranges::find(architectures, name, &GgufArchitecture::name);
  if (found == architectures.end()) {
    std::string known;
    for (const GgufArchitecture& a : architectures)
      known += (known.empty() ? "" : ", ") + std::string(a.name);
    return Status(
        Code::kUnimplemented,
        ErrorKind::kValidation,
        path + ": general.architecture is \"" + std::string(name) + "\", supported are " + known,
        "general.architecture");
  }
  out.architecture_ = &*found;
  COXSWAIN_RETURN_IF_ERROR(out.make_config());
  return out;
}

Status GgufModel::read_parts(const std::string& path) {
  const auto add = [&](const std::string& file) -> Status {
    auto header = gguf::Header::read(file);
    if (!header.ok()) return header.status().with_context(file);
    parts_.push_back({file, std::move(header).value()});
    return {};
  };
  COXSWAIN_RETURN_IF_ERROR(add(path));
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                            parts_of(path, parts_.front().header));
  if (paths.size() == 1) return {};
  parts_.clear();
  for (const std::string& part : paths) COXSWAIN_RETURN_IF_ERROR(add(part));
  return {};
}

Status GgufModel::make_config() {
  const auto find = [&](std::string_view name) -> std::pair<const Part*, const gguf::TensorInfo*> {
    for (const Part& part : parts_) {
      const auto tensors = part.header.tensors();
      const auto found = std::ranges::find(tensors, name, &gguf::TensorInfo::name);
      if (found != tensors.end()) return {&part, &*found};
    }
    return {};
  };
  const auto floats = [&](std::string_view name) -> Result<std::vector<float>> {
    const auto [part, tensor] = find(name);
    constexpr std::uint64_t kFactorsMax = 1 << 16;
    if (tensor->type->name != "F32" || tensor->n_bytes > kFactorsMax * sizeof(float))
      return Status(Code::kDataLoss,
                    part->path + ": tensor \"" + std::string(name) + "\" has type " +
                        std::string(tensor->type->name) + " and shape " +
                        weights::shape_text(tensor->shape) + ", not some factors in F32");
    COXSWAIN_ASSIGN_OR_RETURN(const weights::TensorFile file,
                              weights::TensorFile::open(part->path));
    std::vector<float> out(tensor->n_bytes / sizeof(float));
    if (!file.read_at(tensor->begin, std::as_writable_bytes(std::span(out))))
      return Status(Code::kDataLoss, part->path + ": cannot be read");
    return out;
  };
  COXSWAIN_ASSIGN_OR_RETURN(
      config_,
      gguf_config(parts_.front().path,
                  parts_.front().header,
                  *architecture_,
                  {[&](std::string_view name) { return find(name).second; }, floats}));
  return {};
}

Result<weights::Checkpoint> GgufModel::open_weights() const {
  std::vector<weights::TensorFile> files;
  for (const Part& part : parts_) {
    COXSWAIN_ASSIGN_OR_RETURN(
        weights::TensorFile file,
        weights::open_gguf(part.path, part.header, [&](std::string_view name) {
          return name_in_checkpoint(*architecture_, name);
        }));
    files.push_back(std::move(file));
  }
  return weights::Checkpoint::of(std::move(files));
}

void GgufModel::adjust(Architecture& architecture) const {
  if (architecture_->interleaves) {
    for (RopeSpec& rope : architecture.arch.ropes) rope.style = kernels::RopeStyle::kInterleaved;
  }
  if (!architecture_->adds_norm_offset) return;
  architecture.arch.norm.weight_offset = 0.0F;
  for (LayerSpec& layer : architecture.arch.layers)
    layer.attention().qk_norm_spec.weight_offset = 0.0F;
}

}  // namespace coxswain::model
