#pragma once
// SafetensorsFile: one checked *.safetensors file, read by offset.
//
// Format (the safetensors project's README): 8 bytes little-endian header length N, N bytes of
// JSON, data. The JSON object maps tensor names to {dtype, shape, data_offsets: [begin, end)},
// offsets counted from the first byte of data; "__metadata__" maps strings to strings. open()
// proves, before any data is read: N within limits, every dtype known, shape products and byte
// sizes by checked multiplication, sizes equal to the offsets, tensors tiling the data area from 0
// to its end without overlap or hole, names unique.
//
// Data is copied out with pread; nothing of the file stays mapped.
//
// Thread rule: const methods may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <coxswain/status.h>

#include "tensor/dtype.h"

namespace coxswain::weights {

// Every element type a safetensors file may name. Most are known only so that such tensors can be
// checked and left alone.
enum class StoredType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF6E2M3,
  kF6E3M2,
  kF4,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kC64,
};

std::string_view name_of(StoredType type);  // as the file spells it: "BF16"
// Empty unless kernels can take the type as it is (F32, F16, BF16).
std::optional<tensor::DType> float_type(StoredType type);

struct TensorInfo {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // in the file, bytes
  std::uint64_t end = 0;

  std::uint64_t n_bytes() const { return end - begin; }
};

// Bytes of a tensor; empty if a product overflows or the bits do not fill whole bytes.
std::optional<std::uint64_t> stored_bytes(StoredType type, std::span<const std::uint64_t> shape);

std::string shape_text(std::span<const std::uint64_t> shape);  // "[3, 4]"

struct SafetensorsLimits {
  std::uint64_t header_bytes_max = 100'000'000;  // the limit of the reference implementation
  std::size_t dimensions_max = 16;
};

class SafetensorsFile {
 public:
  // Errors name the file, the tensor and the rule: kNotFound if it cannot be opened, kDataLoss if
  // it breaks the format.
  static Result<SafetensorsFile> open(const std::string& path,
                                      const SafetensorsLimits& limits = {});

  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;

  // Fills `out` with the bytes of `tensor` from `offset` on.
  // REQUIRES: offset + out.size() <= tensor.n_bytes(), tensor of this file. Errors: kDataLoss if
  // the file became shorter or cannot be read.
  Status read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  SafetensorsFile() = default;
  Status read_header(const SafetensorsLimits& limits);
  Status check_tiling(std::uint64_t data_begin, std::uint64_t file_bytes) const;

  std::string path_;
  int descriptor_ = -1;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace coxswain::weights
