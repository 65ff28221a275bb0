#pragma once
// Header: the front of one GGUF file, checked: its keys with their values, and what it says of its tensors. Read by
// everybody who takes something from such a file: vocabulary, chat templates, config, weights.
//
// Format (ggml's docs/gguf.md, versions 2 and 3, little-endian): magic "GGUF", version, number of tensors, number of
// keys; keys as string, type, value; tensors as name, dimensions (innermost first), type, offset; padding to
// `general.alignment`; data. read() proves before it believes a number: every length within what the file has, every
// type known, products without overflow, rows of whole blocks, tensors aligned, inside the file and apart from each
// other, names and keys unique.
//
// Thread rule: immutable; views are into the header and live as long as it.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <coxswain/status.h>

#include "gguf/tensor_types.h"

namespace coxswain::gguf {

enum class ValueType : std::uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// A value of a key. A number is an array of one.
struct Value {
  ValueType type = ValueType::kUint8;  // of an array: of its items
  bool is_array = false;
  std::size_t n = 0;                    // items
  std::string_view bytes;               // of a string, or of all numbers as the file has them
  std::vector<std::string_view> texts;  // of an array of strings

  bool is_text() const { return type == ValueType::kString && !is_array; }
  bool is_number() const { return type != ValueType::kString; }
  // REQUIRES: is_number(), i < n. Integers above 2^53 are rounded.
  double number(std::size_t i = 0) const;
};

struct TensorInfo {
  std::string_view name;
  const TensorType* type = nullptr;
  std::vector<std::uint64_t> shape;  // outermost first
  std::uint64_t begin = 0;           // in the file, bytes
  std::uint64_t n_bytes = 0;
};

class Header {
 public:
  // Errors: kNotFound if the file cannot be opened, kDataLoss naming the key, tensor and rule at fault; the path is for
  // the caller to add.
  static Result<Header> read(const std::filesystem::path& path);
  // The same of a whole front, as front_of() in writer.h makes it, of a file that will have `file_bytes`.
  static Result<Header> parse(std::string_view front, std::uint64_t file_bytes);

  // Null: there is no such key.
  const Value* find(std::string_view key) const;
  // Empty, or nothing: there is no such key, or it has another type.
  std::string_view text(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::span<const std::string_view> texts(std::string_view key) const;

  // In the order of the file.
  std::span<const std::string_view> keys() const { return keys_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }

 private:
  friend class HeaderReader;
  Header() = default;

  std::vector<char> bytes_;
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, Value> values_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace coxswain::gguf
