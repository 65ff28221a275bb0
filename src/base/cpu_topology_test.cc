#include "base/cpu_topology.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::base {
namespace {

// Files of a machine: siblings[i] is what the kernel says of cpu i.
void put_machine(const TempFolder& folder, const std::vector<std::string>& siblings) {
  for (std::size_t cpu = 0; cpu < siblings.size(); ++cpu) {
    folder.write(
        "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        siblings[cpu] + "\n");
  }
}

TEST(CpuTopology, SiblingsOfACoreComeLast) {
  const TempFolder folder;
  put_machine(folder, {"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"});
  const CpuOrder order = order_by_core(std::vector{0, 1, 2, 3, 4, 5, 6, 7}, folder.path());
  EXPECT_EQ(order.n_cores, 4U);
  EXPECT_EQ(order.cpus, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(CpuTopology, NeighboursMayBeSiblings) {
  const TempFolder folder;
  put_machine(folder, {"0-1", "0-1", "2-3", "2-3"});
  const CpuOrder order = order_by_core(std::vector{0, 1, 2, 3}, folder.path());
  EXPECT_EQ(order.n_cores, 2U);
  EXPECT_EQ(order.cpus, (std::vector{0, 2, 1, 3}));
}

TEST(CpuTopology, OnlyAllowedCpusCount) {
  const TempFolder folder;
  put_machine(folder, {"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"});
  const CpuOrder order = order_by_core(std::vector{2, 4, 6, 7}, folder.path());
  EXPECT_EQ(order.n_cores, 3U);
  EXPECT_EQ(order.cpus, (std::vector{2, 4, 7, 6}));
}

// Cores with two threads beside cores with one, as on desktop machines.
TEST(CpuTopology, CoresMayDiffer) {
  const TempFolder folder;
  put_machine(folder, {"0-1", "0-1", "2", "3"});
  const CpuOrder order = order_by_core(std::vector{0, 1, 2, 3}, folder.path());
  EXPECT_EQ(order.n_cores, 3U);
  EXPECT_EQ(order.cpus, (std::vector{0, 2, 3, 1}));
}

TEST(CpuTopology, WithoutFilesEveryCpuIsACore) {
  const TempFolder folder;
  const CpuOrder order = order_by_core(std::vector{1, 3}, folder.path());
  EXPECT_EQ(order.n_cores, 2U);
  EXPECT_EQ(order.cpus, (std::vector{1, 3}));
}

TEST(CpuTopology, TheMaskOfThisProcessIsFound) {
  EXPECT_FALSE(allowed_cpus().empty());
}

}  // namespace
}  // namespace coxswain::base
