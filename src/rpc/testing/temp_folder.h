#pragma once
// TempFolder: a private folder for the sockets of one test, removed with everything in it.

#include <filesystem>
#include <stdlib.h>
#include <string>

namespace coxswain::rpc::testing {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "coxswain-rpc-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ::abort();
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace coxswain::rpc::testing
