#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "json/json.h"

namespace coxswain::weights {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

struct TypeRow {
  StoredType type;
  std::string_view name;
  unsigned bits;
};

constexpr std::array kTypes{
    TypeRow{StoredType::kF64, "F64", 64},       TypeRow{StoredType::kF32, "F32", 32},
    TypeRow{StoredType::kF16, "F16", 16},       TypeRow{StoredType::kBf16, "BF16", 16},
    TypeRow{StoredType::kF8E5M2, "F8_E5M2", 8}, TypeRow{StoredType::kF8E4M3, "F8_E4M3", 8},
    TypeRow{StoredType::kF8E8M0, "F8_E8M0", 8}, TypeRow{StoredType::kF6E2M3, "F6_E2M3", 6},
    TypeRow{StoredType::kF6E3M2, "F6_E3M2", 6}, TypeRow{StoredType::kF4, "F4", 4},
    TypeRow{StoredType::kI64, "I64", 64},       TypeRow{StoredType::kI32, "I32", 32},
    TypeRow{StoredType::kI16, "I16", 16},       TypeRow{StoredType::kI8, "I8", 8},
    TypeRow{StoredType::kU64, "U64", 64},       TypeRow{StoredType::kU32, "U32", 32},
    TypeRow{StoredType::kU16, "U16", 16},       TypeRow{StoredType::kU8, "U8", 8},
    TypeRow{StoredType::kBool, "BOOL", 8},      TypeRow{StoredType::kC64, "C64", 64},
};

const TypeRow* find_type(std::string_view name) {
  const auto* row =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.name == name; });
  return row == kTypes.end() ? nullptr : row;
}

Status damaged(const std::string& path, const std::string& what) {
  return {Code::kDataLoss, path + ": " + what};
}

Status damaged_tensor(const std::string& path, const std::string& tensor, const std::string& what) {
  return damaged(path, "tensor \"" + tensor + "\": " + what);
}

bool read_at(int descriptor, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
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
  const TypeRow* type = find_type(dtype->as_string());
  if (type == nullptr) return bad("unknown dtype \"" + dtype->as_string() + "\"");

  TensorInfo out;
  out.name = name;
  out.type = type->type;
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
    return bad("shape " + shape_text(out.shape) + " of " + std::string(type->name) +
               " has no size in whole bytes below 2^64");
  if (*n_bytes != *end - *begin) {
    return bad("shape " + shape_text(out.shape) + " of " + std::string(type->name) + " needs " +
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

}  // namespace

std::string_view name_of(StoredType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.name;
  }
  return "";
}

std::optional<tensor::DType> float_type(StoredType type) {
  if (type == StoredType::kF32) return tensor::DType::kF32;
  if (type == StoredType::kF16) return tensor::DType::kF16;
  if (type == StoredType::kBf16) return tensor::DType::kBf16;
  return std::nullopt;
}

std::optional<std::uint64_t> stored_bytes(StoredType type, std::span<const std::uint64_t> shape) {
  const auto* row =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.type == type; });
  std::uint64_t n_bits = row->bits;
  for (const std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(n_bits, dimension, &n_bits)) return std::nullopt;
  }
  if (n_bits % 8 != 0) return std::nullopt;
  return n_bits / 8;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path,
                                              const SafetensorsLimits& limits) {
  SafetensorsFile file;
  file.path_ = path;
  // O_NONBLOCK: opening a pipe that nobody writes would wait for ever; files do not know it.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0)
    return Status(Code::kNotFound, path + ": cannot be opened: " + std::strerror(errno));
  COXSWAIN_RETURN_IF_ERROR(file.read_header(limits));
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      tensors_(std::move(other.tensors_)),
      index_(std::move(other.index_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(tensors_, other.tensors_);
  std::swap(index_, other.index_);
  return *this;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Status SafetensorsFile::read(const TensorInfo& tensor,
                             std::uint64_t offset,
                             std::span<std::byte> out) const {
  if (offset > tensor.n_bytes() || out.size() > tensor.n_bytes() - offset) {
    return internal_error(path_ + ": read past the end of tensor \"" + tensor.name + "\"");
  }
  if (!read_at(descriptor_, tensor.begin + offset, out)) {
    return damaged_tensor(path_, tensor.name, "the file ends inside its data or cannot be read");
  }
  return {};
}

Status SafetensorsFile::read_header(const SafetensorsLimits& limits) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    return damaged(path_, "not a regular file");
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  std::array<std::byte, kLengthBytes> length{};
  if (file_bytes < kLengthBytes || !read_at(descriptor_, 0, length)) {
    return damaged(path_, "shorter than the 8 bytes of the header length");
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    header_bytes = header_bytes << 8 | std::to_integer<std::uint64_t>(length[i]);
  if (header_bytes > limits.header_bytes_max) {
    return damaged(path_,
                   "header length " + std::to_string(header_bytes) + " is above the limit of " +
                       std::to_string(limits.header_bytes_max));
  }
  if (header_bytes > file_bytes - kLengthBytes) {
    return damaged(
        path_, "header length " + std::to_string(header_bytes) + " is more than the file holds");
  }
  std::string text(header_bytes, '\0');
  if (!read_at(descriptor_, kLengthBytes, std::as_writable_bytes(std::span(text))))
    return damaged(path_, "header cannot be read");
  auto header = json::parse(text);
  if (!header.ok()) return damaged(path_, "header: " + header.status().message());
  if (!header->is_object()) return damaged(path_, "header is not a JSON object");

  const std::uint64_t data_begin = kLengthBytes + header_bytes;
  for (const auto& [name, value] : header->as_object()) {
    if (name == "__metadata__") {
      COXSWAIN_RETURN_IF_ERROR(check_metadata(path_, value));
      continue;
    }
    COXSWAIN_ASSIGN_OR_RETURN(
        TensorInfo info,
        read_tensor(
            path_, name, value, limits.dimensions_max, {data_begin, file_bytes - data_begin}));
    index_.emplace(name, tensors_.size());
    tensors_.push_back(std::move(info));
  }
  return check_tiling(data_begin, file_bytes);
}

Status SafetensorsFile::check_tiling(std::uint64_t data_begin, std::uint64_t file_bytes) const {
  std::vector<const TensorInfo*> order;
  order.reserve(tensors_.size());
  for (const TensorInfo& tensor : tensors_) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = data_begin;
  for (const TensorInfo* tensor : order) {
    if (tensor->begin < at)
      return damaged_tensor(path_, tensor->name, "its data overlaps the data of another tensor");
    if (tensor->begin > at)
      return damaged_tensor(path_, tensor->name, "there is a hole before its data");
    at = tensor->end;
  }
  if (at != file_bytes) {
    return damaged(path_,
                   std::to_string(file_bytes - at) + " bytes after the data of the last tensor");
  }
  return {};
}

}  // namespace coxswain::weights
