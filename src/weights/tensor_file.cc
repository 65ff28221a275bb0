#include "weights/tensor_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

namespace coxswain::weights {
namespace {

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

const TypeRow* row_of(StoredType type) {
  const auto* const row = std::ranges::find(kTypes, type, &TypeRow::type);
  return row == kTypes.end() ? nullptr : row;
}

}  // namespace

std::string_view name_of(StoredType type) {
  const TypeRow* const row = row_of(type);
  return row == nullptr ? "" : row->name;
}

std::optional<StoredType> find_stored_type(std::string_view name) {
  const auto* const row = std::ranges::find(kTypes, name, &TypeRow::name);
  if (row == kTypes.end()) return std::nullopt;
  return row->type;
}

std::optional<tensor::DType> float_type(StoredType type) {
  if (type == StoredType::kF32) return tensor::DType::kF32;
  if (type == StoredType::kF16) return tensor::DType::kF16;
  if (type == StoredType::kBf16) return tensor::DType::kBf16;
  return std::nullopt;
}

std::optional<std::uint64_t> stored_bytes(StoredType type, std::span<const std::uint64_t> shape) {
  std::uint64_t n_bits = row_of(type)->bits;
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

std::string TensorFile::identity() const {
  struct stat about {};
  if (fstat(descriptor_, &about) != 0) return "";
  const auto changed = std::int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec;
  return std::to_string(n_bytes_) + " " + std::to_string(changed) + " " +
         std::to_string(about.st_ino);
}

Result<TensorFile> TensorFile::open(const std::string& path) {
  TensorFile file;
  file.path_ = path;
  // O_NONBLOCK: opening a pipe that nobody writes would wait for ever; files do not know it.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0)
    return Status(Code::kNotFound, path + ": cannot be opened: " + std::strerror(errno));
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    return Status(Code::kDataLoss, path + ": not a regular file");
  file.n_bytes_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

TensorFile::~TensorFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

TensorFile::TensorFile(TensorFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      n_bytes_(other.n_bytes_),
      tensors_(std::move(other.tensors_)),
      index_(std::move(other.index_)) {}

TensorFile& TensorFile::operator=(TensorFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(n_bytes_, other.n_bytes_);
  std::swap(tensors_, other.tensors_);
  std::swap(index_, other.index_);
  return *this;
}

const TensorInfo* TensorFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

bool TensorFile::add(TensorInfo tensor) {
  if (!index_.emplace(tensor.name, tensors_.size()).second) return false;
  tensors_.push_back(std::move(tensor));
  return true;
}

bool TensorFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

Status TensorFile::read(const TensorInfo& tensor,
                        std::uint64_t offset,
                        std::span<std::byte> out) const {
  if (offset > tensor.n_bytes() || out.size() > tensor.n_bytes() - offset) {
    return internal_error(path_ + ": read past the end of tensor \"" + tensor.name + "\"");
  }
  if (!read_at(tensor.begin + offset, out)) {
    return {Code::kDataLoss,
            path_ + ": tensor \"" + tensor.name +
                "\": the file ends inside its data or cannot be read"};
  }
  return {};
}

}  // namespace coxswain::weights
