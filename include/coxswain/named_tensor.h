#pragma once
// NamedTensor and InferenceRequest: how programs written for TensorRT-LLM's batch manager hand requests over and get
// answers back. Which names there are, with shapes and types: docs/batch-manager.md.
//
// Thread rule: values. A request that a BatchManager has taken belongs to it until its final response.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace coxswain {

enum class ElementType : std::uint8_t { kBool, kInt32, kInt64, kUint64, kFloat32, kUint8 };

constexpr std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return "bool";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kUint64:
      return "uint64";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kUint8:
      return "uint8";
  }
  return "unknown";
}

constexpr std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::kBool:
    case ElementType::kUint8:
      return 1;
    case ElementType::kInt32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kUint64:
      return 8;
  }
  return 1;
}

// The element type of a C++ type; other types than these six do not compile.
template <typename T>
inline constexpr ElementType kElementType = [] {
  static_assert(std::is_same_v<T, bool> || std::is_same_v<T, std::int32_t> ||
                    std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::uint64_t> ||
                    std::is_same_v<T, float> || std::is_same_v<T, std::uint8_t>,
                "a tensor has elements of bool, int32, int64, uint64, float or uint8");
  if constexpr (std::is_same_v<T, bool>) return ElementType::kBool;
  if constexpr (std::is_same_v<T, std::int32_t>) return ElementType::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ElementType::kInt64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ElementType::kUint64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return ElementType::kUint8;
  return ElementType::kFloat32;
}();

struct NamedTensor {
  std::string name = {};
  ElementType type = ElementType::kInt32;
  std::vector<std::int64_t> shape = {};  // outermost dimension first
  std::vector<std::byte> bytes = {};     // row-major

  // Nothing is checked here: whoever takes the tensor says what is wrong with it.
  template <typename T>
  static NamedTensor of(std::string name,
                        std::vector<std::int64_t> shape,
                        const std::vector<T>& values) {
    NamedTensor out;
    out.name = std::move(name);
    out.type = kElementType<T>;
    out.shape = std::move(shape);
    out.bytes.resize(values.size() * sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {  // whose vector has no array
      for (std::size_t i = 0; i < values.size(); ++i)
        out.bytes[i] = values[i] ? std::byte{1} : std::byte{0};
    } else if (!values.empty()) {
      std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
    }
    return out;
  }

  // The bytes of a text, [1, n].
  static NamedTensor text(std::string name, std::string_view value) {
    return of<std::uint8_t>(std::move(name),
                            {1, static_cast<std::int64_t>(value.size())},
                            std::vector<std::uint8_t>(value.begin(), value.end()));
  }

  // The values, for as long as the tensor stays as it is; none if its elements have another type.
  template <typename T>
  std::span<const T> as() const {
    if (type != kElementType<T>) return {};
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  friend bool operator==(const NamedTensor&, const NamedTensor&) = default;
};

class InferenceRequest {
 public:
  explicit InferenceRequest(std::uint64_t id) : id_(id) {}

  std::uint64_t id() const { return id_; }
  // Takes the place of a tensor of that name.
  void set(NamedTensor tensor) {
    std::string name = tensor.name;
    tensors_.insert_or_assign(std::move(name), std::move(tensor));
  }
  // Null if there is none.
  const NamedTensor* get(std::string_view name) const {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
  }
  // The runner's processor of this name sees the request's logits first, with the request's id as its tag
  // (logits_processor.h). Empty: none.
  void set_logits_post_processor(std::string name) { logits_post_processor_ = std::move(name); }
  const std::string& logits_post_processor() const { return logits_post_processor_; }
  // By name.
  const std::map<std::string, NamedTensor, std::less<>>& tensors() const { return tensors_; }

 private:
  std::uint64_t id_;
  std::string logits_post_processor_;
  std::map<std::string, NamedTensor, std::less<>> tensors_;
};

}  // namespace coxswain
