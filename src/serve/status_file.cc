#include "serve/status_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace coxswain::serve {
namespace {

// `errno` says why.
Status cannot_write(const std::string& path) {
  return {Code::kUnavailable, "cannot write " + path + ": " + std::strerror(errno)};
}

}  // namespace

std::string shard_status_file(const std::string& run_folder, std::size_t replica) {
  return run_folder + "/shard-" + std::to_string(replica) + ".json";
}

Status write_status_file(const json::Object& facts) {
  const char* path = std::getenv(kStatusFileVariable);
  if (path == nullptr || *path == '\0') return {};
  const std::string temporary = std::string(path) + ".part";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << json::write(json::Value(facts)) << '\n';
    if (!file.flush()) return cannot_write(temporary);
  }
  return std::rename(temporary.c_str(), path) == 0 ? Status() : cannot_write(path);
}

}  // namespace coxswain::serve
