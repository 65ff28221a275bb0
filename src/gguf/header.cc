#include "gguf/header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

namespace coxswain::gguf {

// Reads what the front of a file holds into a Header.
class HeaderReader {
 public:
  HeaderReader(Header& out, std::uint64_t file_bytes)
      : out_(out), rest_(out.bytes_.data(), out.bytes_.size()), file_bytes_(file_bytes) {}

  Status read();
  // The bytes ended before the header did.
  bool is_cut() const { return is_cut_; }

 private:
  static constexpr std::uint64_t kKeysMax = 1 << 16;
  static constexpr std::uint64_t kTensorsMax = 1 << 18;
  static constexpr std::uint32_t kDimensionsMax = 4;
  static constexpr std::uint64_t kAlignment = 32;  // without the key

  static Status damaged(const std::string& what) {
    return {Code::kDataLoss, "GGUF header: " + what};
  }
  Status cut(const std::string& where) {
    is_cut_ = true;
    return damaged("cut off at " + where);
  }
  template <typename T>
  bool take(T& out) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(&out, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  bool take_bytes(std::uint64_t n, std::string_view& out) {
    if (n > rest_.size()) return false;
    out = rest_.substr(0, static_cast<std::size_t>(n));
    rest_.remove_prefix(static_cast<std::size_t>(n));
    return true;
  }
  bool take_string(std::string_view& out) {
    std::uint64_t length = 0;
    return take(length) && take_bytes(length, out);
  }

  Status read_keys(std::uint64_t n);
  Status read_value(const std::string& where, Value& out);
  Status read_items(const std::string& where, std::uint32_t type, std::uint64_t n, Value& out);
  Status read_tensors(std::uint64_t n);
  Status read_tensor(std::size_t index, TensorInfo& out);
  Status place_tensors();
  Result<std::uint64_t> alignment() const;

  Header& out_;
  std::string_view rest_;
  const std::uint64_t file_bytes_;
  bool is_cut_ = false;
};

namespace {

constexpr std::uint64_t kFirstBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kHeaderBytesMax = std::uint64_t{512} << 20;

// 0: no number, or an unknown type.
std::size_t number_bytes(std::uint32_t type) {
  constexpr std::array<std::size_t, 13> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 0;
}

template <typename T>
double as_double(const char* from) {
  T value{};
  std::memcpy(&value, from, sizeof(T));
  return static_cast<double>(value);
}

std::string quoted(std::string_view name) {
  return "\"" + std::string(name) + "\"";
}

}  // namespace

double Value::number(std::size_t i) const {
  const char* const from = bytes.data() + i * number_bytes(static_cast<std::uint32_t>(type));
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kBool:
      return as_double<std::uint8_t>(from);
    case ValueType::kInt8:
      return as_double<std::int8_t>(from);
    case ValueType::kUint16:
      return as_double<std::uint16_t>(from);
    case ValueType::kInt16:
      return as_double<std::int16_t>(from);
    case ValueType::kUint32:
      return as_double<std::uint32_t>(from);
    case ValueType::kInt32:
      return as_double<std::int32_t>(from);
    case ValueType::kFloat32:
      return as_double<float>(from);
    case ValueType::kUint64:
      return as_double<std::uint64_t>(from);
    case ValueType::kInt64:
      return as_double<std::int64_t>(from);
    case ValueType::kFloat64:
      return as_double<double>(from);
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  return 0;
}

Status HeaderReader::read() {
  std::uint32_t version = 0;
  std::uint64_t n_tensors = 0;
  std::uint64_t n_keys = 0;
  if (!rest_.starts_with("GGUF")) return damaged("no magic number");
  rest_.remove_prefix(4);
  if (!take(version)) return cut("its start");
  if (version != 2 && version != 3)
    return damaged("version " + std::to_string(version) + " is not supported, 2 and 3 are");
  if (!take(n_tensors) || !take(n_keys)) return cut("its start");
  if (n_keys > kKeysMax)
    return damaged(std::to_string(n_keys) + " keys, at most " + std::to_string(kKeysMax) +
                   " are read");
  if (n_tensors > kTensorsMax)
    return damaged(std::to_string(n_tensors) + " tensors, at most " + std::to_string(kTensorsMax) +
                   " are read");
  COXSWAIN_RETURN_IF_ERROR(read_keys(n_keys));
  COXSWAIN_RETURN_IF_ERROR(read_tensors(n_tensors));
  return place_tensors();
}

Status HeaderReader::read_keys(std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) {
    std::string_view key;
    if (!take_string(key)) return cut("key " + std::to_string(i));
    Value value;
    COXSWAIN_RETURN_IF_ERROR(read_value("key " + std::string(key), value));
    if (!out_.values_.emplace(key, std::move(value)).second)
      return damaged("key " + std::string(key) + " is there twice");
    out_.keys_.push_back(key);
  }
  return {};
}

Status HeaderReader::read_value(const std::string& where, Value& out) {
  std::uint32_t type = 0;
  if (!take(type)) return cut(where);
  if (type != static_cast<std::uint32_t>(ValueType::kArray)) return read_items(where, type, 1, out);
  std::uint64_t n = 0;
  if (!take(type) || !take(n)) return cut(where);
  out.is_array = true;
  return read_items(where, type, n, out);
}

Status HeaderReader::read_items(const std::string& where,
                                std::uint32_t type,
                                std::uint64_t n,
                                Value& out) {
  out.type = static_cast<ValueType>(type);
  if (type == static_cast<std::uint32_t>(ValueType::kString)) {
    out.n = 1;
    if (!out.is_array) return take_string(out.bytes) ? Status() : cut(where);
    if (n > rest_.size() / sizeof(std::uint64_t)) return cut(where);  // of each string's length
    out.n = static_cast<std::size_t>(n);
    out.texts.resize(out.n);
    for (std::size_t i = 0; i < out.n; ++i) {
      if (!take_string(out.texts[i])) return cut(where + "[" + std::to_string(i) + "]");
    }
    return {};
  }
  const std::size_t n_bytes = number_bytes(type);
  if (n_bytes == 0) return damaged(where + " has the unknown type " + std::to_string(type));
  if (n > rest_.size() / n_bytes) return cut(where);
  out.n = static_cast<std::size_t>(n);
  return take_bytes(n * n_bytes, out.bytes) ? Status() : cut(where);
}

Status HeaderReader::read_tensors(std::uint64_t n) {
  constexpr std::size_t kTensorBytesMin = 24;
  if (n > rest_.size() / kTensorBytesMin) return cut("its tensors");
  out_.tensors_.resize(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out_.tensors_.size(); ++i)
    COXSWAIN_RETURN_IF_ERROR(read_tensor(i, out_.tensors_[i]));
  return {};
}

Status HeaderReader::read_tensor(std::size_t index, TensorInfo& out) {
  std::uint32_t n_dimensions = 0;
  const std::string place = "tensor " + std::to_string(index);
  if (!take_string(out.name) || !take(n_dimensions)) return cut(place);
  const std::string where = "tensor " + quoted(out.name);
  if (n_dimensions == 0 || n_dimensions > kDimensionsMax)
    return damaged(where + " has " + std::to_string(n_dimensions) + " dimensions, 1 to " +
                   std::to_string(kDimensionsMax) + " are allowed");
  out.shape.resize(n_dimensions);
  std::uint64_t n_values = 1;
  for (std::size_t d = n_dimensions; d-- > 0;) {
    if (!take(out.shape[d])) return cut(where);
    if (__builtin_mul_overflow(n_values, out.shape[d], &n_values))
      return damaged(where + " has a shape of more than 2^64 values");
  }
  std::uint32_t type = 0;
  if (!take(type) || !take(out.begin)) return cut(where);
  out.type = find_tensor_type(type);
  if (out.type == nullptr) return damaged(where + " has the unknown type " + std::to_string(type));
  const std::uint64_t width = out.shape.back();
  if (width == 0 || width % out.type->block_values != 0)
    return damaged(where + " has rows of " + std::to_string(width) + " values, " +
                   std::string(out.type->name) + " wants whole blocks of " +
                   std::to_string(out.type->block_values));
  if (__builtin_mul_overflow(
          n_values / out.type->block_values, std::uint64_t{out.type->block_bytes}, &out.n_bytes))
    return damaged(where + " has a shape of more than 2^64 bytes");
  return {};
}

Result<std::uint64_t> HeaderReader::alignment() const {
  const Value* const value = out_.find("general.alignment");
  if (value == nullptr) return kAlignment;
  const double given = value->is_number() && value->n == 1 ? value->number() : 0;
  // A power of two, so that it is exact here; the format asks for a multiple of 8.
  for (std::uint64_t a = 8; a <= (std::uint64_t{1} << 20); a *= 2) {
    if (given == static_cast<double>(a)) return a;
  }
  return damaged("general.alignment is no power of two from 8 to 2^20");
}

// Offsets count from the first aligned byte behind the header.
Status HeaderReader::place_tensors() {
  if (out_.tensors_.empty()) return {};
  COXSWAIN_ASSIGN_OR_RETURN(const std::uint64_t alignment, alignment());
  const std::uint64_t header_bytes = out_.bytes_.size() - rest_.size();
  const std::uint64_t data_begin = (header_bytes + alignment - 1) / alignment * alignment;
  std::vector<const TensorInfo*> in_order;
  in_order.reserve(out_.tensors_.size());
  for (TensorInfo& tensor : out_.tensors_) {
    const std::string where = "tensor " + quoted(tensor.name);
    if (tensor.begin % alignment != 0)
      return damaged(where + " begins at " + std::to_string(tensor.begin) +
                     ", no multiple of the alignment of " + std::to_string(alignment));
    std::uint64_t end = 0;
    const bool too_far = __builtin_add_overflow(tensor.begin, data_begin, &tensor.begin) ||
                         __builtin_add_overflow(tensor.begin, tensor.n_bytes, &end);
    if (too_far || end > file_bytes_)
      return damaged(where + " ends behind the end of the file of " + std::to_string(file_bytes_) +
                     " bytes");
    in_order.push_back(&tensor);
  }
  std::ranges::sort(in_order, {}, &TensorInfo::begin);
  for (std::size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i]->begin < in_order[i - 1]->begin + in_order[i - 1]->n_bytes)
      return damaged("tensors " + quoted(in_order[i - 1]->name) + " and " +
                     quoted(in_order[i]->name) + " overlap");
  }
  std::ranges::sort(in_order, {}, &TensorInfo::name);
  for (std::size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i]->name == in_order[i - 1]->name)
      return damaged("tensor " + quoted(in_order[i]->name) + " is there twice");
  }
  return {};
}

Result<Header> Header::read(const std::filesystem::path& path) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return Status(Code::kNotFound, ErrorKind::kNotFound, "cannot be opened");
  // Nobody says how long the header is: more of the file is read until it is whole.
  for (std::uint64_t n_bytes = std::min(kFirstBytes, file_bytes);;
       n_bytes = std::min({n_bytes * 4, file_bytes, kHeaderBytesMax})) {
    Header out;
    out.bytes_.resize(static_cast<std::size_t>(n_bytes));
    file.seekg(0);
    if (!file.read(out.bytes_.data(), static_cast<std::streamsize>(n_bytes)))
      return Status(Code::kDataLoss, "cannot be read");
    HeaderReader reader(out, file_bytes);
    const Status status = reader.read();
    if (status.ok()) return out;
    if (!reader.is_cut() || n_bytes == file_bytes) return status;
    if (n_bytes == kHeaderBytesMax)
      return Status(Code::kDataLoss,
                    "the header is longer than " + std::to_string(kHeaderBytesMax >> 20) + " MiB");
  }
}

Result<Header> Header::parse(std::string_view front, std::uint64_t file_bytes) {
  Header out;
  out.bytes_.assign(front.begin(), front.end());
  COXSWAIN_RETURN_IF_ERROR(HeaderReader(out, file_bytes).read());
  return out;
}

const Value* Header::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string_view Header::text(std::string_view key) const {
  const Value* const value = find(key);
  return value != nullptr && value->is_text() ? value->bytes : std::string_view();
}

std::optional<double> Header::number(std::string_view key) const {
  const Value* const value = find(key);
  if (value == nullptr || !value->is_number() || value->is_array) return std::nullopt;
  return value->number();
}

std::span<const std::string_view> Header::texts(std::string_view key) const {
  const Value* const value = find(key);
  return value == nullptr ? std::span<const std::string_view>() : value->texts;
}

}  // namespace coxswain::gguf
