#include "base/machine.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::base {
namespace {

class MachineTest : public testing::Test {
 protected:
  void SetUp() override { put("proc/meminfo", "MemTotal: 4000 kB\nMemAvailable:    1000 kB\n"); }
  void put(const std::string& path, const std::string& text) { folder_.write(path, text); }

  const TempFolder folder_;
  const std::string& root_ = folder_.path();
};

TEST_F(MachineTest, WithoutGroupsTheMachineDecides) {
  EXPECT_EQ(available_memory_bytes(root_).value(), 1000u * 1024);
  EXPECT_GE(usable_cores(root_), 1u);
}

TEST_F(MachineTest, TheTightestGroupOnTheWayToTheRootDecides) {
  put("proc/self/cgroup", "0::/pod/inner\n");
  put("sys/fs/cgroup/pod/inner/memory.max", "max\n");
  put("sys/fs/cgroup/pod/memory.max", "500000\n");
  put("sys/fs/cgroup/pod/memory.current", "200000\n");
  EXPECT_EQ(available_memory_bytes(root_).value(), 300'000u);
  put("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file_other 7\ninactive_file 50000\n");
  EXPECT_EQ(available_memory_bytes(root_).value(), 350'000u);
  put("sys/fs/cgroup/pod/inner/memory.max", "100\n");
  put("sys/fs/cgroup/pod/inner/memory.current", "200\n");
  EXPECT_EQ(available_memory_bytes(root_).value(), 0u);
}

TEST_F(MachineTest, VersionOneGroupsCountToo) {
  put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n");
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "700000\n");
  put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(available_memory_bytes(root_).value(), 699'999u);
  put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  const std::size_t unlimited = usable_cores(root_);
  put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(usable_cores(root_), 1u);
  EXPECT_GE(unlimited, 1u);
}

TEST_F(MachineTest, QuotasRoundUpToWholeProcessors) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "30000 100000\n");
  EXPECT_EQ(usable_cores(root_), 1u);
  put("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_GE(usable_cores(root_), 1u);
}

TEST_F(MachineTest, HardwareThreadsOfACoreCountOnce) {
  for (int cpu = 0; cpu < 8; ++cpu) {
    put("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n");
  }
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(usable_cores(all, root_), 4U);
  EXPECT_EQ(usable_cores(std::vector{0, 4, 1}, root_), 2U);
  // A quota counts processors; cores beyond it would stand still, and siblings are no cores.
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "600000 100000\n");
  EXPECT_EQ(usable_cores(all, root_), 4U);
  put("sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(usable_cores(all, root_), 3U);
}

TEST_F(MachineTest, WithoutMeminfoThereIsAnError) {
  std::filesystem::remove(folder_.file("proc/meminfo"));
  EXPECT_EQ(available_memory_bytes(root_).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace coxswain::base
