#pragma once
// For tests: a folder that is removed at the end, and files made of bytes.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>

#include <gtest/gtest.h>

namespace coxswain::weights {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "coxswain-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    std::string path = path_ + "/" + std::string(name);
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::string path_;
};

// A safetensors file with this header and this data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string out;
  for (unsigned i = 0; i < 8; ++i)
    out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xFF));
  return out.append(header).append(data);
}

}  // namespace coxswain::weights
