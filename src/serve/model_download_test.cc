#include "serve/model_download.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

TEST(MayDownload, NamesOfTheHubThatNothingHereHas) {
  unsetenv("HF_HUB_OFFLINE");
  for (const char* id : {"org/name", "org/na.me-1_x", "Org/name:Q4_K_M"})
    EXPECT_TRUE(may_download(id)) << id;
  for (const char* id : {"",
                         "name",
                         "/org/name",
                         "../name",
                         "./name",
                         "org/",
                         "org/name/x",
                         "org/na me",
                         "org/..",
                         "a:b/c"})
    EXPECT_FALSE(may_download(id)) << id;
}

TEST(MayDownload, NotWhatIsOnThisMachine) {
  const base::TempFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::filesystem::create_directories("org/name");
  EXPECT_FALSE(may_download("org/name"));
  EXPECT_FALSE(may_download("org/name:Q4_K_M"));
  EXPECT_TRUE(may_download("org/other"));
  std::filesystem::current_path(before);
}

TEST(MayDownload, NotOffline) {
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_FALSE(may_download("org/name"));
  setenv("HF_HUB_OFFLINE", "0", 1);
  EXPECT_TRUE(may_download("org/name"));
  unsetenv("HF_HUB_OFFLINE");
}

TEST(PullWords, AreThoseOfTgiThatChangeSomething) {
  const auto words = [](std::vector<std::string_view> given) { return pull_words(given); };
  EXPECT_EQ(words({"org/name"}).value(), (std::vector<std::string>{"pull", "org/name"}));
  EXPECT_EQ(words({"--json-output",
                   "--revision",
                   "v2",
                   "org/name",
                   "--extension",
                   ".safetensors",
                   "--logger-level",
                   "INFO",
                   "--no-auto-convert"})
                .value(),
            (std::vector<std::string>{"pull", "org/name", "--revision", "v2"}));
  for (const auto& wrong : std::vector<std::vector<std::string_view>>{{},
                                                                      {"a", "b"},
                                                                      {"a", "--revision"},
                                                                      {"a", "--extension", ".bin"},
                                                                      {"a", "--merge-lora"},
                                                                      {"--x"}})
    EXPECT_EQ(words(wrong).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace coxswain::serve
