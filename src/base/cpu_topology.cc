#include "base/cpu_topology.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <utility>

namespace coxswain::base {
namespace {

namespace fs = std::filesystem;

// A mask for this many CPUs.
class CpuSet {
 public:
  explicit CpuSet(std::size_t n_cpus)
      : n_cpus_(n_cpus), set_(CPU_ALLOC(n_cpus), [](cpu_set_t* set) { CPU_FREE(set); }) {
    if (set_) CPU_ZERO_S(bytes(), set_.get());
  }
  std::size_t n_cpus() const { return n_cpus_; }
  std::size_t bytes() const { return CPU_ALLOC_SIZE(n_cpus_); }
  cpu_set_t* get() const { return set_.get(); }
  bool has(std::size_t cpu) const { return CPU_ISSET_S(cpu, bytes(), set_.get()); }
  void add(std::size_t cpu) { CPU_SET_S(cpu, bytes(), set_.get()); }

 private:
  std::size_t n_cpus_;
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set_;
};

// What all CPUs of a core have in common.
std::string core_of(int cpu, const fs::path& root) {
  const std::string name = "cpu" + std::to_string(cpu);
  std::ifstream file(root / "sys/devices/system/cpu" / name / "topology/thread_siblings_list");
  std::string siblings;
  std::getline(file, siblings);
  return siblings.empty() ? name : siblings;
}

}  // namespace

std::vector<int> allowed_cpus() {
  constexpr std::size_t kCpusMax = std::size_t{1} << 16;
  std::vector<int> cpus;
  // The kernel refuses masks that are smaller than its own.
  for (std::size_t n = CPU_SETSIZE; n <= kCpusMax; n *= 2) {
    const CpuSet set(n);
    if (set.get() == nullptr) return cpus;
    if (sched_getaffinity(0, set.bytes(), set.get()) != 0) {
      if (errno == EINVAL) continue;
      return cpus;
    }
    for (std::size_t cpu = 0; cpu < n; ++cpu) {
      if (set.has(cpu)) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  return cpus;
}

CpuOrder order_by_core(std::span<const int> allowed, const fs::path& root) {
  std::map<std::string, std::size_t> n_of_core;
  std::vector<std::pair<std::size_t, int>> ranked;  // how many CPUs of its core come before
  for (const int cpu : allowed) ranked.emplace_back(n_of_core[core_of(cpu, root)]++, cpu);
  std::ranges::stable_sort(ranked, {}, &std::pair<std::size_t, int>::first);
  CpuOrder out;
  out.n_cores = n_of_core.size();
  for (const auto& [rank, cpu] : ranked) out.cpus.push_back(cpu);
  return out;
}

void bind_to_cpu(std::thread& thread, int cpu) {
  const auto index = static_cast<std::size_t>(cpu);
  CpuSet set(index + 1);
  if (set.get() == nullptr) return;
  set.add(index);
  pthread_setaffinity_np(thread.native_handle(), set.bytes(), set.get());
}

}  // namespace coxswain::base
