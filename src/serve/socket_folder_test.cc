#include "serve/socket_folder.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

namespace fs = std::filesystem;

TEST(SocketFolder, WhatItMadeIsRemovedWithWhatAKilledShardLeft) {
  const base::TempFolder folder;
  const std::string path = folder.file("new/shard-0");
  {
    const SocketFolder made(path);
    EXPECT_EQ(fs::status(folder.file("new")).permissions(), fs::perms::owner_all);
    folder.write("new/shard-0", "");
    folder.write("new/shard-0.lock", "");
  }
  EXPECT_FALSE(fs::exists(folder.file("new")));
}

TEST(SocketFolder, WhatWasThereStays) {
  const base::TempFolder folder;
  folder.write("old/shard-0", "");
  { const SocketFolder found(folder.file("old/shard-0")); }
  EXPECT_TRUE(fs::exists(folder.file("old/shard-0")));
  {
    const SocketFolder made(folder.file("new/shard-0"));
    folder.write("new/of-another", "");
  }
  EXPECT_TRUE(fs::exists(folder.file("new/of-another")));
  { const SocketFolder impossible("/proc/none/shard-0"); }
  { const SocketFolder without_folder("shard-0"); }
}

}  // namespace
}  // namespace coxswain::serve
