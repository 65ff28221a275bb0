#pragma once
// For tests: the bytes of GGUF files, made key by key and tensor by tensor, right or wrong.
//
// Thread rule: a value.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::gguf::testing {

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

inline std::string text_of(std::string_view text) {
  return bytes_of<std::uint64_t>(text.size()) + std::string(text);
}

// Values as they stand behind a key: their type, then their bytes.
inline std::string string_value(std::string_view text) {
  return bytes_of<std::uint32_t>(8) + text_of(text);
}
inline std::string u32_value(std::uint32_t value) {
  return bytes_of<std::uint32_t>(4) + bytes_of(value);
}
inline std::string f32_value(float value) {
  return bytes_of<std::uint32_t>(6) + bytes_of(value);
}
inline std::string strings_value(const std::vector<std::string>& texts) {
  std::string out = bytes_of<std::uint32_t>(9) + bytes_of<std::uint32_t>(8) +
                    bytes_of<std::uint64_t>(texts.size());
  for (const std::string& text : texts) out += text_of(text);
  return out;
}
inline std::string f32s_value(const std::vector<float>& values) {
  std::string out = bytes_of<std::uint32_t>(9) + bytes_of<std::uint32_t>(6) +
                    bytes_of<std::uint64_t>(values.size());
  for (const float value : values) out += bytes_of(value);
  return out;
}

struct FileBytes {
  std::uint32_t version = 3;
  std::uint64_t n_keys = 0;
  std::uint64_t n_tensors = 0;
  std::string keys;
  std::string tensors;
  std::string data;

  FileBytes& key(std::string_view name, const std::string& value) {
    keys += text_of(name) + value;
    ++n_keys;
    return *this;
  }
  // `dimensions` as the file has them, innermost first; `offset` into the data.
  FileBytes& tensor(std::string_view name,
                    const std::vector<std::uint64_t>& dimensions,
                    std::uint32_t type,
                    std::uint64_t offset) {
    tensors += text_of(name) + bytes_of(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t d : dimensions) tensors += bytes_of(d);
    tensors += bytes_of(type) + bytes_of(offset);
    ++n_tensors;
    return *this;
  }
  // The next tensor in the data, aligned to 32.
  FileBytes& tensor_with(std::string_view name,
                         const std::vector<std::uint64_t>& dimensions,
                         std::uint32_t type,
                         std::string_view bytes) {
    data.resize((data.size() + 31) / 32 * 32);
    tensor(name, dimensions, type, data.size());
    data += bytes;
    return *this;
  }

  std::string bytes() const {
    std::string out =
        "GGUF" + bytes_of(version) + bytes_of(n_tensors) + bytes_of(n_keys) + keys + tensors;
    if (n_tensors > 0) out.resize((out.size() + 31) / 32 * 32);
    return out + data;
  }
};

}  // namespace coxswain::gguf::testing
