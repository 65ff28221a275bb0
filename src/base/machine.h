#pragma once
// What this machine, seen through its control groups, has to give: memory and processors.
//
// Sources: /proc/meminfo (MemAvailable), memory.max and memory.current (cgroup v2),
// memory.limit_in_bytes and memory.usage_in_bytes (v1), cpu.max and cpu.cfs_quota_us, each from the
// process's own group up to the root, the CPU mask and the topology (cpu_topology.h).
//
// Pages of files that the kernel gives back under pressure count as available (memory.stat).
//
// Thread rule: pure functions of the file system.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include <coxswain/status.h>

namespace coxswain::base {

// Bytes that this process can still take before something is killed. `root` replaces "/" in tests.
// Errors: kUnavailable if the kernel does not say.
Result<std::uint64_t> available_memory_bytes(const std::filesystem::path& root = "/");

// Physical cores that this process may use at once, at least 1: those of its CPU mask, less if a quota allows less. Two
// hardware threads of a core count as one.
std::size_t usable_cores(const std::filesystem::path& root = "/");
// The same for this mask.
std::size_t usable_cores(std::span<const int> allowed, const std::filesystem::path& root);

}  // namespace coxswain::base
