#pragma once
// SafetensorsWriter: writes one *.safetensors file, tensor after tensor, without holding the data in memory.
//
// The file appears under its name only when finish() has written and synced everything; an
// unfinished one is removed.
//
// Thread rule: one thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "weights/safetensors.h"

namespace coxswain::weights {

struct TensorDeclaration {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<std::uint64_t> shape;
};

class SafetensorsWriter {
 public:
  // Writes the header. Errors: kInvalidArgument for a size that overflows, kNotFound if the file
  // cannot be made.
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::span<const TensorDeclaration> tensors);

  ~SafetensorsWriter();
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Appends the next bytes of the data area, in the order of the declarations. Errors: kResourceExhausted (disk).
  Status append(std::span<const std::byte> bytes);
  // REQUIRES: all declared bytes appended (checked).
  Status finish();

 private:
  SafetensorsWriter() = default;

  std::string path_;
  std::string temporary_path_;
  int descriptor_ = -1;
  std::uint64_t bytes_left_ = 0;
};

}  // namespace coxswain::weights
