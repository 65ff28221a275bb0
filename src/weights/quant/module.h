#pragma once
// What the readers of quantised checkpoints share: the parts of a module, checked, and reading them.
//
// Thread rule: values and pure functions.

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "weights/derived_tensor.h"
#include "weights/stored_quant.h"

namespace coxswain::weights::quant {

static_assert(std::endian::native == std::endian::little, "files are read as they are");

// The tensors of one linear layer, by what stands behind its name: ".qweight".
class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}

  void add(std::string_view suffix, const StoredTensor& part) { parts_.emplace(suffix, part); }
  const std::string& name() const { return name_; }
  // Nothing but a weight of floats.
  bool is_plain() const;
  bool has(std::string_view suffix) const { return parts_.contains(suffix); }
  // Empty if it is not there.
  StoredTensor find(std::string_view suffix) const;
  // Errors: there is no such part.
  Result<StoredTensor> get(std::string_view suffix) const;
  // The same, of one of `types`, with this shape. Errors name the part.
  Result<StoredTensor> get(std::string_view suffix,
                           std::span<const StoredType> types,
                           const std::vector<std::uint64_t>& shape) const;

  // A derived tensor of all parts, without a reader yet.
  DerivedTensor derived(std::string_view suffix, std::vector<std::uint64_t> shape) const;

 private:
  std::string name_;
  std::unordered_map<std::string_view, StoredTensor> parts_;
};

inline constexpr StoredType kInt32[] = {StoredType::kI32};
inline constexpr StoredType kScaleTypes[] = {StoredType::kF16, StoredType::kBf16, StoredType::kF32};

Status expect_type(const StoredTensor& part, std::span<const StoredType> types);
Status expect_shape(const StoredTensor& part, const std::vector<std::uint64_t>& shape);
// Both extents of a matrix of one of `types`; neither is 0.
Result<std::pair<std::uint64_t, std::uint64_t>> extents(const StoredTensor& part,
                                                        std::span<const StoredType> types);

// A whole part. REQUIRES: its elements have the size of T.
template <typename T>
Result<std::vector<T>> read_all(const ReadBytes& read, const StoredTensor& part) {
  std::vector<T> out(part.info->n_bytes() / sizeof(T));
  COXSWAIN_RETURN_IF_ERROR(read(part, 0, std::as_writable_bytes(std::span(out))));
  return out;
}
// A whole part of kScaleTypes.
Result<std::vector<float>> read_floats(const ReadBytes& read, const StoredTensor& part);

// Bits [at, at + bits) of the stream in word `at / 32 * stride` and the ones after it, lowest bits first.
// REQUIRES: bits <= 16; the stream has them.
inline std::uint32_t stream_bits(const std::uint32_t* words,
                                 std::uint64_t stride,
                                 std::uint64_t at,
                                 std::uint32_t bits) {
  const std::uint32_t shift = at % 32;
  std::uint64_t value = words[at / 32 * stride] >> shift;
  if (shift + bits > 32) value |= std::uint64_t{words[(at / 32 + 1) * stride]} << (32 - shift);
  return static_cast<std::uint32_t>(value) & ((1U << bits) - 1);
}

// Groups of inputs that share a scale. Errors: `scales` has another number of them.
Status expect_groups(const StoredTensor& scales,
                     std::uint64_t n_groups,
                     std::uint64_t k,
                     std::uint64_t group_size);

// One reader for each form; each says which parts it takes.
struct Form {
  StoredMethod method = StoredMethod::kNone;
  std::string_view name;
  std::string_view key;                        // the part without which nothing is quantised
  std::span<const std::string_view> suffixes;  // of all parts
  Result<DerivedTensor> (*derive)(const Module& module, const StoredQuant& quant) = nullptr;
};

extern const Form kGptq;
extern const Form kAwq;
extern const Form kMarlin;
extern const Form kExl2;
extern const Form kCompressedTensors;
extern const Form kFp8;
extern const Form kBitsandbytes;
extern const Form kMxfp4;

}  // namespace coxswain::weights::quant
