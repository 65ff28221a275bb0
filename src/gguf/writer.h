#pragma once
// The front of a GGUF file that is to be written (header.h has the format): its keys, and where its tensors will lie.
//
// Thread rule: values and pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/header.h"

namespace coxswain::gguf {

// Keys with their values, in the order in which they are added. REQUIRES: no key twice.
class KeyList {
 public:
  void add_text(std::string_view key, std::string_view value);
  void add_u32(std::string_view key, std::uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_flag(std::string_view key, bool value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const std::int32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void copy(std::string_view key, const Value& value);

  std::uint64_t size() const { return n_keys_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, ValueType type);
  template <typename T>
  void add_array(std::string_view key, ValueType type, std::span<const T> values);

  std::uint64_t n_keys_ = 0;
  std::string bytes_;
};

// What readers take without general.alignment.
inline constexpr std::uint64_t kWrittenAlignment = 32;

struct NewTensor {
  std::string name;
  const TensorType* type = nullptr;
  std::vector<std::uint64_t> shape;  // outermost first; rows are whole blocks

  std::uint64_t n_rows() const;
  std::uint64_t row_bytes() const { return shape.back() / type->block_values * type->block_bytes; }
  std::uint64_t n_bytes() const { return n_rows() * row_bytes(); }
};

// What stands before the data, filled up to it. The data are the tensors in this order, each filled up alike.
std::string front_of(const KeyList& keys, std::span<const NewTensor> tensors);

}  // namespace coxswain::gguf
