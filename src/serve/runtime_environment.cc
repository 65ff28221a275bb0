#include "serve/runtime_environment.h"

#include <fstream>
#include <string_view>
#include <thread>

#include <sys/utsname.h>

namespace coxswain::serve {
namespace {

// The value of the first line "`name` ... : value" of a file below /proc.
std::string first_value(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

// Those of the processor's instruction sets that our kernels can use.
std::string instruction_sets() {
  const std::string flags = first_value("/proc/cpuinfo", "flags") + " ";
  std::string out;
  for (const char* name : {"avx2",
                           "fma",
                           "avx512f",
                           "avx512_vnni",
                           "avx512_bf16",
                           "amx_tile",
                           "amx_int8",
                           "amx_bf16"}) {
    if (flags.find(" " + std::string(name) + " ") == std::string::npos) continue;
    out += (out.empty() ? "" : " ") + std::string(name);
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> runtime_environment() {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) out.emplace_back(name, std::move(value));
  };
  add("Version", COXSWAIN_VERSION);
  add("Compiler", "g++ " __VERSION__);
  if (utsname system{}; uname(&system) == 0) {
    add("Kernel", std::string(system.sysname) + " " + system.release + " " + system.machine);
  }
  add("CPU", first_value("/proc/cpuinfo", "model name"));
  add("CPUs", std::to_string(std::thread::hardware_concurrency()));
  add("Instruction sets", instruction_sets());
  add("Memory", first_value("/proc/meminfo", "MemTotal"));
  add("Available memory", first_value("/proc/meminfo", "MemAvailable"));
  return out;
}

}  // namespace coxswain::serve
