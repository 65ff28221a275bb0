#include "weights/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "json/json.h"
#include "weights/safetensors.h"

namespace coxswain::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::size_t kIndexBytesMax = std::size_t{64} << 20;
constexpr std::size_t kShardsMax = 10'000;

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& model_dir) {
  Checkpoint out;
  std::error_code error;
  const fs::path dir(model_dir);
  if (!fs::is_directory(dir, error)) return Status(Code::kNotFound, model_dir + ": no such folder");
  if (fs::exists(dir / kSingleName, error)) {
    COXSWAIN_RETURN_IF_ERROR(out.open_file((dir / kSingleName).string()));
  } else if (fs::exists(dir / kIndexName, error)) {
    COXSWAIN_RETURN_IF_ERROR(out.open_sharded(model_dir, (dir / kIndexName).string()));
  } else {
    return Status(Code::kNotFound,
                  model_dir + ": neither " + std::string(kSingleName) + " nor " +
                      std::string(kIndexName) + " is there");
  }
  return out;
}

Checkpoint::Located Checkpoint::find(std::string_view name) const {
  if (const auto derived = derived_.find(std::string(name)); derived != derived_.end()) {
    const DerivedTensor& tensor = derived->second;
    return {&tensor.info, tensor.parts.front().file, &tensor};
  }
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) return {};
  const TensorFile& file = files_[found->second.first];
  return {&file.tensors()[found->second.second], &file};
}

Status Checkpoint::add_derived(DerivedTensor derived) {
  if (const auto other = find(derived.info.name)) {
    const bool is_part = std::ranges::any_of(
        derived.parts, [&](const StoredTensor& part) { return part.info == other.tensor; });
    if (!is_part)
      return tensor_error({other.tensor, other.file},
                          "stands beside \"" + derived.parts.front().info->name +
                              "\", which holds the same weight quantised");
  }
  std::string name = derived.info.name;
  derived_.emplace(std::move(name), std::move(derived));
  return {};
}

bool Checkpoint::has_quantised() const {
  if (!derived_.empty()) return true;
  return std::ranges::any_of(files_, [](const TensorFile& file) {
    return std::ranges::any_of(file.tensors(), [](const TensorInfo& tensor) {
      return tensor.type == StoredType::kBlocks;
    });
  });
}

std::uint64_t Checkpoint::n_bytes() const {
  std::uint64_t out = 0;
  for (const TensorFile& file : files_) {
    for (const TensorInfo& tensor : file.tensors()) out += tensor.n_bytes();
  }
  return out;
}

Result<Checkpoint> Checkpoint::of(std::vector<TensorFile> files) {
  Checkpoint out;
  for (TensorFile& file : files) COXSWAIN_RETURN_IF_ERROR(out.add_file(std::move(file)));
  return out;
}

Status Checkpoint::open_file(const std::string& path) {
  COXSWAIN_ASSIGN_OR_RETURN(TensorFile file, open_safetensors(path));
  return add_file(std::move(file));
}

Status Checkpoint::add_file(TensorFile file) {
  const auto is_also_in = [&](const std::string& name, const std::string& other) -> Status {
    return {Code::kDataLoss, file.path() + ": tensor \"" + name + "\" is also in " + other};
  };
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const std::string& name = file.tensors()[i].name;
    const auto [entry, is_new] = index_.emplace(name, std::pair(files_.size(), i));
    if (!is_new) return is_also_in(name, files_[entry->second.first].path());
  }
  files_.push_back(std::move(file));
  return {};
}

Status Checkpoint::open_sharded(const std::string& model_dir, const std::string& index_path) {
  const auto bad = [&](const std::string& what) {
    return Status(Code::kDataLoss, index_path + ": " + what);
  };
  auto index = json::parse_file(index_path, kIndexBytesMax);
  if (!index.ok()) return bad(index.status().message());
  const json::Value* map = index->find("weight_map");
  if (map == nullptr || !map->is_object()) return bad("weight_map is missing or not an object");

  std::set<std::string> names;
  for (const auto& [tensor, file] : map->as_object()) {
    if (!file.is_string()) return bad("weight_map \"" + tensor + "\" is not a string");
    const std::string& name = file.as_string();
    // A plain name: an index must not reach out of its folder.
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      return bad("weight_map \"" + tensor + "\" does not name a file beside the index");
    }
    names.insert(name);
    if (names.size() > kShardsMax) return bad("more than " + std::to_string(kShardsMax) + " files");
  }
  if (names.empty()) return bad("weight_map is empty");
  files_.reserve(names.size());
  for (const std::string& name : names)
    COXSWAIN_RETURN_IF_ERROR(open_file((fs::path(model_dir) / name).string()));
  for (const auto& [tensor, file] : map->as_object()) {
    const Located located = find(tensor);
    if (!located) return bad("tensor \"" + tensor + "\" is in no file");
    if (fs::path(located.file->path()).filename() != file.as_string()) {
      return bad("tensor \"" + tensor + "\" is not in " + file.as_string() + " but in " +
                 located.file->path());
    }
  }
  return {};
}

}  // namespace coxswain::weights
