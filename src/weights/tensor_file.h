#pragma once
// TensorFile: the tensors of one open file of weights, read by offset. open_safetensors() and open_gguf() make them,
// with everything proven that a header says.
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
#include "tensor/quant.h"

namespace coxswain::weights {

// Every element type a file may name. Most are known only so that such tensors can be checked and left alone.
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
  kBlocks,  // of GGUF: TensorInfo::blocks says which
};

std::string_view name_of(StoredType type);  // as safetensors files spell it: "BF16"
std::optional<StoredType> find_stored_type(std::string_view name);
// Empty unless kernels can take the type as it is (F32, F16, BF16).
std::optional<tensor::DType> float_type(StoredType type);

// Where the parts of one block go.
struct BlockParts {
  std::uint8_t* codes = nullptr;       // a byte for each value
  std::byte* scale = nullptr;          // one, of the scheme's type
  std::byte* offset = nullptr;         // likewise
  std::uint8_t* sub_scales = nullptr;  // of the block's sub-groups
  std::uint8_t* sub_minimums = nullptr;
};

// A type of blocks that are integer codes: a block is a group of the scheme.
struct BlockCodes {
  tensor::QuantScheme scheme;
  // tensor::decode_row of the parts gives the bits that BlockType::decode gives.
  void (*split)(const std::byte* block, const BlockParts& out) = nullptr;
};

// Values that are stored together (gguf_blocks.h).
struct BlockType {
  std::string_view name;     // "Q4_K"
  std::uint32_t values = 0;  // of a block; a row holds whole blocks
  std::uint32_t bytes = 0;   // of a block
  void (*decode)(const std::byte* block, float* out) = nullptr;
  const BlockCodes* codes = nullptr;  // null: not held as codes
};

struct TensorInfo {
  std::string name;
  StoredType type = StoredType::kF32;
  BlockType blocks = {};  // for kBlocks
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // in the file, bytes
  std::uint64_t end = 0;

  std::uint64_t n_bytes() const { return end - begin; }
  std::string_view type_name() const {
    return type == StoredType::kBlocks ? blocks.name : name_of(type);
  }
};

// Bytes of a tensor; empty if a product overflows or the bits do not fill whole bytes. REQUIRES: not kBlocks.
std::optional<std::uint64_t> stored_bytes(StoredType type, std::span<const std::uint64_t> shape);

std::string shape_text(std::span<const std::uint64_t> shape);  // "[3, 4]"

class TensorFile {
 public:
  // Without tensors yet. Errors: kNotFound if it cannot be opened, kDataLoss if it is no regular file.
  static Result<TensorFile> open(const std::string& path);

  ~TensorFile();
  TensorFile(TensorFile&& other) noexcept;
  TensorFile& operator=(TensorFile&& other) noexcept;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t n_bytes() const { return n_bytes_; }
  // What the system knows it by, its path apart: size, time of the last change in ns, inode.
  std::string identity() const;
  std::span<const TensorInfo> tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;
  // False if there is one of that name.
  bool add(TensorInfo tensor);

  // False if the file ends before, or cannot be read.
  bool read_at(std::uint64_t offset, std::span<std::byte> out) const;
  // Fills `out` with the bytes of `tensor` from `offset` on.
  // REQUIRES: offset + out.size() <= tensor.n_bytes(), tensor of this file. Errors: kDataLoss if
  // the file became shorter or cannot be read.
  Status read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  TensorFile() = default;

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t n_bytes_ = 0;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace coxswain::weights
