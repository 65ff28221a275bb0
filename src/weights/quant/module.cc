#include "weights/quant/module.h"

#include <algorithm>

#include "tensor/dtype.h"

namespace coxswain::weights {

Status tensor_error(const StoredTensor& tensor, const std::string& what) {
  return {Code::kInvalidArgument,
          tensor.file->path() + ": tensor \"" + tensor.info->name + "\" " + what};
}

namespace quant {

bool Module::is_plain() const {
  const StoredTensor weight = find(".weight");
  return parts_.size() == 1 && weight && float_type(weight.info->type);
}

StoredTensor Module::find(std::string_view suffix) const {
  const auto found = parts_.find(suffix);
  return found == parts_.end() ? StoredTensor{} : found->second;
}

Result<StoredTensor> Module::get(std::string_view suffix) const {
  if (const StoredTensor part = find(suffix)) return part;
  return Status(Code::kInvalidArgument,
                parts_.begin()->second.file->path() + ": tensor \"" + name_ + std::string(suffix) +
                    "\" is missing");
}

Result<StoredTensor> Module::get(std::string_view suffix,
                                 std::span<const StoredType> types,
                                 const std::vector<std::uint64_t>& shape) const {
  COXSWAIN_ASSIGN_OR_RETURN(const StoredTensor part, get(suffix));
  COXSWAIN_RETURN_IF_ERROR(expect_type(part, types));
  COXSWAIN_RETURN_IF_ERROR(expect_shape(part, shape));
  return part;
}

DerivedTensor Module::derived(std::string_view suffix, std::vector<std::uint64_t> shape) const {
  DerivedTensor out;
  out.info.name = name_ + std::string(suffix);
  out.info.shape = std::move(shape);
  for (const auto& [unused, part] : parts_) out.parts.push_back(part);
  std::ranges::sort(out.parts, {}, [](const StoredTensor& part) -> const std::string& {
    return part.info->name;
  });
  return out;
}

Status expect_type(const StoredTensor& part, std::span<const StoredType> types) {
  if (std::ranges::find(types, part.info->type) != types.end()) return {};
  std::string names;
  for (const StoredType type : types)
    names += (names.empty() ? "" : ", ") + std::string(name_of(type));
  return tensor_error(part, "has type " + std::string(part.info->type_name()) + ", not " + names);
}

Status expect_shape(const StoredTensor& part, const std::vector<std::uint64_t>& shape) {
  if (part.info->shape == shape) return {};
  return tensor_error(part,
                      "has shape " + shape_text(part.info->shape) +
                          ", the parts beside it ask for " + shape_text(shape));
}

Result<std::pair<std::uint64_t, std::uint64_t>> extents(const StoredTensor& part,
                                                        std::span<const StoredType> types) {
  COXSWAIN_RETURN_IF_ERROR(expect_type(part, types));
  const std::vector<std::uint64_t>& shape = part.info->shape;
  if (shape.size() != 2 || shape[0] == 0 || shape[1] == 0)
    return tensor_error(part, "has shape " + shape_text(shape) + ", not that of a matrix");
  return std::pair(shape[0], shape[1]);
}

Result<std::vector<float>> read_floats(const ReadBytes& read, const StoredTensor& part) {
  if (part.info->type == StoredType::kF32) return read_all<float>(read, part);
  COXSWAIN_ASSIGN_OR_RETURN(const auto bits, read_all<std::uint16_t>(read, part));
  const bool is_bf16 = part.info->type == StoredType::kBf16;
  std::vector<float> out(bits.size());
  std::ranges::transform(bits, out.begin(), [&](std::uint16_t half) {
    return is_bf16 ? tensor::bf16_to_float(half) : tensor::f16_to_float(half);
  });
  return out;
}

Status expect_groups(const StoredTensor& scales,
                     std::uint64_t n_groups,
                     std::uint64_t k,
                     std::uint64_t group_size) {
  const std::uint64_t wanted = group_size == 0 ? 1 : k / group_size + (k % group_size != 0 ? 1 : 0);
  if (n_groups == wanted) return {};
  return tensor_error(scales,
                      "has " + std::to_string(n_groups) + " groups, " + std::to_string(k) +
                          " inputs in groups of " +
                          std::to_string(group_size == 0 ? k : group_size) + " ask for " +
                          std::to_string(wanted));
}

}  // namespace quant
}  // namespace coxswain::weights
