#pragma once
// What `coxswain doctor` finds: whether this machine gives what the launcher would need with these options.
//
// Thread rule: looks at the machine and the file system; what it makes there to try, it removes.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "options/options.h"

namespace coxswain::serve {

struct Finding {
  enum class Level : std::uint8_t { kOk, kWarn, kFail };
  Level level = Level::kOk;
  std::string name;
  std::string text;
  std::string cure = {};  // what to do; empty if nothing has to be done
};

struct DoctorSite {
  std::string program_folder;        // holds the other programs
  std::filesystem::path root = "/";  // of /proc and /sys, for tests
  bool measures_bandwidth = true;    // takes about half a second
};

// In the order to show them. `values`: the launcher's.
std::vector<Finding> examine(const options::OptionValues& values, const DoctorSite& site);

// A line for each, with what to do below it.
std::string text_of(const std::vector<Finding>& findings);
bool any_fails(const std::vector<Finding>& findings);

}  // namespace coxswain::serve
