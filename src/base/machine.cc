#include "base/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/cpu_topology.h"

namespace coxswain::base {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> leading_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "max" and missing files are no number.
std::optional<std::uint64_t> number_in(const fs::path& path) {
  return leading_number(first_line(path));
}

std::optional<std::uint64_t> meminfo_bytes(const fs::path& root, std::string_view key) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto kib = leading_number(std::string_view(line).substr(key.size()));
    if (kib) return *kib * 1024;
  }
  return std::nullopt;
}

// Where the process stands in the hierarchy of `controller` (empty: version 2), relative to its mount.
std::optional<fs::path> group_of(const fs::path& root, std::string_view controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_v2 = names == ",,";
    const bool found = controller.empty()
                           ? is_v2
                           : names.find("," + std::string(controller) + ",") != std::string::npos;
    if (found) return fs::path(line.substr(second + 1)).relative_path();
  }
  return std::nullopt;
}

// Calls visit(folder) for the group, its parents and the mount itself. In a container the path may
// lie outside the mount: missing folders simply have no files.
template <typename Visit>
void for_each_group(const fs::path& mount, fs::path group, Visit visit) {
  while (!group.empty()) {
    visit(mount / group);
    group = group.has_parent_path() ? group.parent_path() : fs::path();
  }
  visit(mount);
}

// The value of `key` in a file of "key value" lines.
std::uint64_t value_in(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
      return leading_number(std::string_view(line).substr(key.size())).value_or(0);
    }
  }
  return 0;
}

// Names of the files of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cache_key;  // in memory.stat: pages of files that are given back under pressure
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

std::uint64_t left_in_group(const fs::path& folder, const GroupFiles& files) {
  const auto limit = number_in(folder / files.limit);
  if (!limit) return kNoLimit;
  const std::uint64_t used = number_in(folder / files.used).value_or(0);
  const std::uint64_t cache = std::min(used, value_in(folder / "memory.stat", files.cache_key));
  return *limit > used - cache ? *limit - (used - cache) : 0;
}

double cpus_of_quota(double quota, double period) {
  return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

double cpu_max_v2(const fs::path& folder) {
  const std::string line = first_line(folder / "cpu.max");  // "max 100000" or "150000 100000"
  const auto quota = leading_number(line);
  const std::size_t blank = line.find(' ');
  if (!quota || blank == std::string::npos) return 0.0;
  const auto period = leading_number(std::string_view(line).substr(blank));
  return cpus_of_quota(static_cast<double>(*quota), static_cast<double>(period.value_or(0)));
}

double cpu_max_v1(const fs::path& folder) {
  const auto quota = number_in(folder / "cpu.cfs_quota_us");  // -1: none
  const auto period = number_in(folder / "cpu.cfs_period_us");
  return cpus_of_quota(static_cast<double>(quota.value_or(0)),
                       static_cast<double>(period.value_or(0)));
}

}  // namespace

Result<std::uint64_t> available_memory_bytes(const fs::path& root) {
  const auto machine = meminfo_bytes(root, "MemAvailable:");
  if (!machine) return Status(Code::kUnavailable, "cannot read MemAvailable from /proc/meminfo");
  std::uint64_t left = *machine;
  if (const auto group = group_of(root, "")) {
    for_each_group(root / "sys/fs/cgroup", *group, [&](const fs::path& folder) {
      left = std::min(left, left_in_group(folder, kVersion2));
    });
  }
  if (const auto group = group_of(root, "memory")) {
    for_each_group(root / "sys/fs/cgroup/memory", *group, [&](const fs::path& folder) {
      left = std::min(left, left_in_group(folder, kVersion1));
    });
  }
  return left;
}

std::size_t usable_cores(const fs::path& root) {
  return usable_cores(allowed_cpus(), root);
}

std::size_t usable_cores(std::span<const int> allowed, const fs::path& root) {
  auto cores = static_cast<double>(order_by_core(allowed, root).n_cores);
  const auto limit = [&](double quota) {
    if (quota > 0.0) cores = std::min(cores, quota);
  };
  if (const auto group = group_of(root, "")) {
    for_each_group(
        root / "sys/fs/cgroup", *group, [&](const fs::path& folder) { limit(cpu_max_v2(folder)); });
  }
  if (const auto group = group_of(root, "cpu")) {
    for_each_group(root / "sys/fs/cgroup/cpu", *group, [&](const fs::path& folder) {
      limit(cpu_max_v1(folder));
    });
  }
  return static_cast<std::size_t>(std::max(1.0, std::ceil(cores)));
}

}  // namespace coxswain::base
