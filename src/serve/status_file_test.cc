#include "serve/status_file.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

class StatusFile : public ::testing::Test {
 protected:
  ~StatusFile() override { unsetenv(kStatusFileVariable); }
  static void name(const std::string& path) { setenv(kStatusFileVariable, path.c_str(), 1); }

  base::TempFolder folder_;
};

TEST_F(StatusFile, HoldsTheFactsAndAppearsAtOnce) {
  const std::string path = folder_.file("shard-0.json");
  name(path);
  json::Object facts;
  facts.set("url", json::Value(std::string("http://x")));
  ASSERT_TRUE(write_status_file(facts).ok());
  const auto read = json::parse_file(path, 1000);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->find("url")->as_string(), "http://x");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST_F(StatusFile, ReplacesTheOneOfAnEarlierLife) {
  const std::string path = folder_.write("router.json", "{\"old\": true}");
  name(path);
  ASSERT_TRUE(write_status_file({}).ok());
  const auto read = json::parse_file(path, 1000);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->find("old"), nullptr);
}

TEST_F(StatusFile, NothingIsWrittenWithoutALauncher) {
  unsetenv(kStatusFileVariable);
  EXPECT_TRUE(write_status_file({}).ok());
  name("");
  EXPECT_TRUE(write_status_file({}).ok());
}

TEST_F(StatusFile, AFolderThatIsGoneIsNamed) {
  name(folder_.file("gone/router.json"));
  const Status status = write_status_file({});
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("gone/router.json"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace coxswain::serve
