#include "serve/text_files.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

std::string cause_of(const std::string& path) {
  const std::string option = "--tokenizer-config-path=" + path;
  const char* argv[] = {"launcher", option.c_str()};
  const auto parsed = options::parse(options::Binary::kLauncher, 2, argv, {});
  EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.output;
  const auto failure = check_text_files(parsed.values);
  if (!failure) return "";
  EXPECT_EQ(failure->exit_code, kExitUsage);
  EXPECT_THAT(failure->cure, ::testing::HasSubstr("leave it out"));
  return failure->cause;
}

TEST(TextFiles, TheOptionNamesAFileThatCanBeRead) {
  const base::TempFolder folder;
  folder.write("own.json", "{}");
  EXPECT_EQ(cause_of(folder.file("own.json")), "");
  EXPECT_EQ(cause_of(folder.path()),
            "`--tokenizer-config-path` " + folder.path() + " is a folder, not a file");
  EXPECT_EQ(cause_of(folder.file("none.json")),
            "`--tokenizer-config-path` " + folder.file("none.json") +
                " cannot be read: No such file or directory");
}

}  // namespace
}  // namespace coxswain::serve
