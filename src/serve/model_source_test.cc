#include "serve/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ModelSource, AFolderIsMeantAsItStands) {
  const base::TempFolder folder;
  const ModelSource source = find_model(folder.path(), "/nowhere/bin");
  EXPECT_EQ(source.folder, folder.path());
  EXPECT_EQ(source.name, folder.path());
}

TEST(ModelSource, APlainNameMayBeAModelThatComesAlong) {
  const base::TempFolder folder;
  folder.write("share/coxswain/models/tiny-x/config.json", "{}");
  const ModelSource installed = find_model("tiny-x", folder.file("bin"));
  EXPECT_EQ(installed.folder, folder.file("share/coxswain/models/tiny-x"));
  EXPECT_EQ(installed.name, "tiny-x");
  folder.write("models/tiny-y/config.json", "{}");
  EXPECT_EQ(find_model("tiny-y", folder.file("build/release/bin")).folder,
            folder.file("models/tiny-y"));
}

TEST(ModelSource, WhatNobodyKnowsStaysAsItIs) {
  const base::TempFolder folder;
  folder.write("share/coxswain/models/tiny-x/config.json", "{}");
  for (const char* id : {"org/tiny-x", "./tiny-x", "tiny-z", ""}) {
    const ModelSource source = find_model(id, folder.file("bin"));
    EXPECT_EQ(source.folder, id);
    EXPECT_EQ(source.name, id);
  }
}

TEST(ModelSource, NamesThatComeAlongAreSortedAndHaveAConfig) {
  const base::TempFolder folder;
  folder.write("share/coxswain/models/b/config.json", "{}");
  folder.write("share/coxswain/models/a/config.json", "{}");
  folder.write("share/coxswain/models/notes/readme.txt", "");
  EXPECT_THAT(bundled_models(folder.file("bin")), ElementsAre("a", "b"));
  EXPECT_THAT(bundled_models("/nowhere/at/all"), IsEmpty());
}

}  // namespace
}  // namespace coxswain::serve
