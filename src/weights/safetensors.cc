#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "json/json.h"

namespace coxswain::weights {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

Status damaged(const std::string& path, const std::string& what) {
  return {Code::kDataLoss, path + ": " + what};
}

Status damaged_tensor(const std::string& path, const std::string& tensor, const std::string& what) {
  return damaged(path, "tensor \"" + tensor + "\": " + what);
}

// One member of the header. `data_begin` and `data_bytes` place the data area in the file.
Result<TensorInfo> read_tensor(const std::string& path,
                               const std::string& name,
                               const json::Value& value,
                               std::size_t dimensions_max,
                               std::pair<std::uint64_t, std::uint64_t> data) {
  const auto bad = [&](const std::string& what) { return damaged_tensor(path, name, what); };
  if (!value.is_object()) return bad("its entry is not an object");
  for (const auto& [key, unused] : value.as_object()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return bad("unknown key \"" + key + "\"");
  }
  const json::Value* dtype = value.find("dtype");
  const json::Value* shape = value.find("shape");
  const json::Value* offsets = value.find("data_offsets");
  if (dtype == nullptr || !dtype->is_string()) return bad("dtype is missing or not a string");
  if (shape == nullptr || !shape->is_array()) return bad("shape is missing or not an array");
  if (offsets == nullptr || !offsets->is_array() || offsets->as_array().size() != 2) {
    return bad("data_offsets is missing or not a pair");
  }
  const auto type = find_stored_type(dtype->as_string());
  if (!type) return bad("unknown dtype \"" + dtype->as_string() + "\"");

  TensorInfo out;
  out.name = name;
  out.type = *type;
  if (shape->as_array().size() > dimensions_max)
    return bad("more than " + std::to_string(dimensions_max) + " dimensions");
  for (const json::Value& dimension : shape->as_array()) {
    const auto n = dimension.to_uint64();
    if (!n) return bad("shape holds something that is not a count");
    out.shape.push_back(*n);
  }
  const auto begin = offsets->as_array()[0].to_uint64();
  const auto end = offsets->as_array()[1].to_uint64();
  if (!begin || !end || *begin > *end) return bad("data_offsets are not two ascending counts");
  if (*end > data.second) {
    return bad("data_offsets end at " + std::to_string(*end) + ", the file has " +
               std::to_string(data.second) + " bytes of data");
  }
  const auto n_bytes = stored_bytes(out.type, out.shape);
  if (!n_bytes)
    return bad("shape " + shape_text(out.shape) + " of " + std::string(name_of(*type)) +
               " has no size in whole bytes below 2^64");
  if (*n_bytes != *end - *begin) {
    return bad("shape " + shape_text(out.shape) + " of " + std::string(name_of(*type)) + " needs " +
               std::to_string(*n_bytes) + " bytes, data_offsets give " +
               std::to_string(*end - *begin));
  }
  out.begin = data.first + *begin;
  out.end = data.first + *end;
  return out;
}

Status check_metadata(const std::string& path, const json::Value& value) {
  if (!value.is_object()) return damaged(path, "__metadata__ is not an object");
  for (const auto& [key, entry] : value.as_object()) {
    if (!entry.is_string()) return damaged(path, "__metadata__ \"" + key + "\" is not a string");
  }
  return {};
}

Status check_tiling(const TensorFile& file, std::uint64_t data_begin) {
  const std::string& path = file.path();
  std::vector<const TensorInfo*> order;
  order.reserve(file.tensors().size());
  for (const TensorInfo& tensor : file.tensors()) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = data_begin;
  for (const TensorInfo* tensor : order) {
    if (tensor->begin < at)
      return damaged_tensor(path, tensor->name, "its data overlaps the data of another tensor");
    if (tensor->begin > at)
      return damaged_tensor(path, tensor->name, "there is a hole before its data");
    at = tensor->end;
  }
  if (at != file.n_bytes()) {
    return damaged(
        path, std::to_string(file.n_bytes() - at) + " bytes after the data of the last tensor");
  }
  return {};
}

Status read_header(TensorFile& file, const SafetensorsLimits& limits) {
  const std::string& path = file.path();
  const std::uint64_t file_bytes = file.n_bytes();
  std::array<std::byte, kLengthBytes> length{};
  if (file_bytes < kLengthBytes || !file.read_at(0, length)) {
    return damaged(path, "shorter than the 8 bytes of the header length");
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    header_bytes = header_bytes << 8 | std::to_integer<std::uint64_t>(length[i]);
  if (header_bytes > limits.header_bytes_max) {
    return damaged(path,
                   "header length " + std::to_string(header_bytes) + " is above the limit of " +
                       std::to_string(limits.header_bytes_max));
  }
  if (header_bytes > file_bytes - kLengthBytes) {
    return damaged(
        path, "header length " + std::to_string(header_bytes) + " is more than the file holds");
  }
  std::string text(header_bytes, '\0');
  if (!file.read_at(kLengthBytes, std::as_writable_bytes(std::span(text))))
    return damaged(path, "header cannot be read");
  auto header = json::parse(text);
  if (!header.ok()) return damaged(path, "header: " + header.status().message());
  if (!header->is_object()) return damaged(path, "header is not a JSON object");

  const std::uint64_t data_begin = kLengthBytes + header_bytes;
  for (const auto& [name, value] : header->as_object()) {
    if (name == "__metadata__") {
      COXSWAIN_RETURN_IF_ERROR(check_metadata(path, value));
      continue;
    }
    COXSWAIN_ASSIGN_OR_RETURN(
        TensorInfo info,
        read_tensor(
            path, name, value, limits.dimensions_max, {data_begin, file_bytes - data_begin}));
    file.add(std::move(info));  // the reader of JSON refuses repeated names
  }
  return check_tiling(file, data_begin);
}

}  // namespace

Result<TensorFile> open_safetensors(const std::string& path, const SafetensorsLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(TensorFile file, TensorFile::open(path));
  COXSWAIN_RETURN_IF_ERROR(read_header(file, limits));
  return file;
}

}  // namespace coxswain::weights
