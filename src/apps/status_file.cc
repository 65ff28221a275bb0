#include "apps/status_file.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace coxswain::apps {

Status write_status_file(const json::Object& facts) {
  const char* path = std::getenv(kStatusFileVariable);
  if (path == nullptr || *path == '\0') return {};
  const std::string temporary = std::string(path) + ".part";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << json::write(json::Value(facts)) << '\n';
    if (!file.flush()) return {Code::kUnavailable, "cannot write " + temporary};
  }
  if (std::rename(temporary.c_str(), path) != 0)
    return {Code::kUnavailable, std::string("cannot write ") + path};
  return {};
}

}  // namespace coxswain::apps
