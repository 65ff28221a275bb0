#pragma once
// Which processors this process may use, and which of them share a physical core.
//
// Hardware threads of one core (SMT) share its vector units: a second one that computes makes the first slower. The
// kernel's files say which belong together (/sys/devices/system/cpu/cpuN/topology/thread_siblings_list).
//
// Thread rule: pure functions of the file system and the process's mask.

#include <cstddef>
#include <filesystem>
#include <span>
#include <thread>
#include <vector>

namespace coxswain::base {

// The CPU mask of the calling thread, ascending; empty if the kernel does not say.
std::vector<int> allowed_cpus();

struct CpuOrder {
  // Every allowed CPU: one of each core first, then a second of each core that has one, and so on; cores ascending.
  std::vector<int> cpus;
  std::size_t n_cores = 0;  // physical cores with at least one allowed CPU
};

// A CPU whose files are missing counts as a core of its own. `root` replaces "/" in tests.
CpuOrder order_by_core(std::span<const int> allowed, const std::filesystem::path& root = "/");

// Without effect where the kernel refuses.
void bind_to_cpu(std::thread& thread, int cpu);

}  // namespace coxswain::base
