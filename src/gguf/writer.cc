#include "gguf/writer.h"

#include <cstddef>

namespace coxswain::gguf {
namespace {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_type(std::string& out, ValueType type) {
  put(out, static_cast<std::uint32_t>(type));
}

void put_text(std::string& out, std::string_view value) {
  put<std::uint64_t>(out, value.size());
  out += value;
}

std::uint64_t aligned(std::uint64_t n_bytes) {
  return (n_bytes + kWrittenAlignment - 1) / kWrittenAlignment * kWrittenAlignment;
}

}  // namespace

void KeyList::begin(std::string_view key, ValueType type) {
  put_text(bytes_, key);
  put_type(bytes_, type);
  ++n_keys_;
}

void KeyList::add_text(std::string_view key, std::string_view value) {
  begin(key, ValueType::kString);
  put_text(bytes_, value);
}

void KeyList::add_u32(std::string_view key, std::uint32_t value) {
  begin(key, ValueType::kUint32);
  put(bytes_, value);
}

void KeyList::add_f32(std::string_view key, float value) {
  begin(key, ValueType::kFloat32);
  put(bytes_, value);
}

void KeyList::add_flag(std::string_view key, bool value) {
  begin(key, ValueType::kBool);
  put<std::uint8_t>(bytes_, value ? 1 : 0);
}

void KeyList::add_texts(std::string_view key, std::span<const std::string> values) {
  begin(key, ValueType::kArray);
  put_type(bytes_, ValueType::kString);
  put<std::uint64_t>(bytes_, values.size());
  for (const std::string& value : values) put_text(bytes_, value);
}

template <typename T>
void KeyList::add_array(std::string_view key, ValueType type, std::span<const T> values) {
  begin(key, ValueType::kArray);
  put_type(bytes_, type);
  put<std::uint64_t>(bytes_, values.size());
  for (const T value : values) put(bytes_, value);
}

void KeyList::add_i32s(std::string_view key, std::span<const std::int32_t> values) {
  add_array(key, ValueType::kInt32, values);
}

void KeyList::add_f32s(std::string_view key, std::span<const float> values) {
  add_array(key, ValueType::kFloat32, values);
}

void KeyList::copy(std::string_view key, const Value& value) {
  begin(key, value.is_array ? ValueType::kArray : value.type);
  if (value.is_array) {
    put_type(bytes_, value.type);
    put<std::uint64_t>(bytes_, value.n);
    for (const std::string_view each : value.texts) put_text(bytes_, each);
  } else if (value.is_text()) {
    put_text(bytes_, value.bytes);
  }
  if (value.is_number()) bytes_ += value.bytes;
}

std::uint64_t NewTensor::n_rows() const {
  std::uint64_t out = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) out *= shape[d];
  return out;
}

std::string front_of(const KeyList& keys, std::span<const NewTensor> tensors) {
  std::string out = "GGUF";
  put<std::uint32_t>(out, 3);
  put<std::uint64_t>(out, tensors.size());
  put<std::uint64_t>(out, keys.size());
  out += keys.bytes();
  std::uint64_t offset = 0;
  for (const NewTensor& tensor : tensors) {
    put_text(out, tensor.name);
    put(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (std::size_t d = tensor.shape.size(); d-- > 0;) put(out, tensor.shape[d]);
    put(out, tensor.type->id);
    put(out, offset);
    offset += aligned(tensor.n_bytes());
  }
  out.resize(aligned(out.size()));
  return out;
}

}  // namespace coxswain::gguf
