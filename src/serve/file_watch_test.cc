#include "serve/file_watch.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

using std::chrono::milliseconds;

bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 2'000 && !holds(); ++i) std::this_thread::sleep_for(milliseconds(5));
  return holds();
}

TEST(FileWatch, CallsForFilesThatChangeAndForNoOthers) {
  const base::TempFolder folder;
  folder.write("one", "a");
  folder.write("two", "a");
  std::atomic<int> n_ones = 0;
  std::atomic<int> n_twos = 0;
  FileWatch watch;
  watch.add({folder.file("one"), "", folder.file("none")}, [&] { ++n_ones; });
  watch.add({folder.file("two")}, [&] { ++n_twos; });
  watch.start();
  folder.write("one", "longer");
  EXPECT_TRUE(soon([&] { return n_ones == 1; }));
  folder.write("none", "now there");
  EXPECT_TRUE(soon([&] { return n_ones == 2; }));
  std::filesystem::remove(folder.file("none"));
  EXPECT_TRUE(soon([&] { return n_ones == 3; }));
  EXPECT_EQ(n_twos, 0);
}

TEST(FileWatch, WhoAsksHasAllReadAgain) {
  const base::TempFolder folder;
  folder.write("one", "a");
  std::atomic<int> n_calls = 0;
  FileWatch watch;
  watch.ask();  // before there is a thread
  watch.add({folder.file("one")}, [&] { ++n_calls; });
  watch.start();
  EXPECT_TRUE(soon([&] { return n_calls == 1; }));
  watch.ask();
  EXPECT_TRUE(soon([&] { return n_calls == 2; }));
  std::this_thread::sleep_for(milliseconds(1'200));
  EXPECT_EQ(n_calls, 2);  // nothing has changed since
}

TEST(FileWatch, WithoutFilesThereIsNothingToDo) {
  FileWatch watch;
  watch.add({"", ""}, [] { FAIL(); });
  watch.start();
  watch.ask();
}

}  // namespace
}  // namespace coxswain::serve
