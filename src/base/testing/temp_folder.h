#pragma once
// TempFolder: a private folder for the files and sockets of one test, removed with everything in it.
//
// Thread rule: const methods may be called from any thread.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <stdlib.h>
#include <string>
#include <string_view>
#include <system_error>

namespace coxswain::base {

class TempFolder {
 public:
  // Ends the process where none can be made. The path is short, as those of sockets must be.
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "coxswain-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // The path of `name` in it; nothing is made.
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Writes a file, with the folders that `name` asks for, and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    std::string path = file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::string path_;
};

}  // namespace coxswain::base
