#include "serve/model_source.h"

#include <filesystem>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ModelSource, AFolderIsMeantAsItStands) {
  const base::TempFolder folder;
  const ModelSource source = find_model(folder.path(), "/nowhere/bin", {});
  EXPECT_EQ(source.folder, folder.path());
  EXPECT_EQ(source.name, folder.path());
}

TEST(ModelSource, APlainNameMayBeAModelThatComesAlong) {
  const base::TempFolder folder;
  folder.write("share/coxswain/models/tiny-x/config.json", "{}");
  const ModelSource installed = find_model("tiny-x", folder.file("bin"), {});
  EXPECT_EQ(installed.folder, folder.file("share/coxswain/models/tiny-x"));
  EXPECT_EQ(installed.name, "tiny-x");
  folder.write("models/tiny-y/config.json", "{}");
  EXPECT_EQ(find_model("tiny-y", folder.file("build/release/bin"), {}).folder,
            folder.file("models/tiny-y"));
}

TEST(ModelSource, WhatNobodyKnowsStaysAsItIs) {
  const base::TempFolder folder;
  folder.write("share/coxswain/models/tiny-x/config.json", "{}");
  for (const char* id : {"org/tiny-x", "./tiny-x", "tiny-z", ""}) {
    const ModelSource source = find_model(id, folder.file("bin"), {.folder = folder.path()});
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

void write_model(const base::TempFolder& folder, const std::string& name, const char* config) {
  folder.write(name + "/config.json", config);
  folder.write(name + "/model.safetensors", "");
}

TEST(Guesser, HeadsAreServedWithTheModelThatTheyAreFor) {
  const base::TempFolder folder;
  write_model(folder, "base", "{}");
  write_model(folder, "medusa", R"({"medusa_num_heads":2,"base_model_name_or_path":"../base"})");
  write_model(
      folder, "mlp", R"({"model_type":"mlp_speculator","base_model_name_or_path":"org/name"})");
  folder.write("models--org--name/refs/main", "c0ffee");
  write_model(folder, "models--org--name/snapshots/c0ffee", "{}");
  std::string cure;
  const HubCache hub{.folder = folder.path()};
  ModelSource model{.folder = folder.file("medusa"), .name = "heads"};
  EXPECT_EQ(find_guesser("", "/nowhere/bin", hub, model, cure).value(), folder.file("medusa"));
  EXPECT_EQ(model.folder, folder.file("base"));
  EXPECT_EQ(model.name, "heads");
  model = {.folder = folder.file("mlp"), .name = "heads"};
  EXPECT_EQ(find_guesser("", "/nowhere/bin", hub, model, cure).value(), folder.file("mlp"));
  EXPECT_EQ(model.folder, folder.file("models--org--name/snapshots/c0ffee"));
  model = {.folder = folder.file("mlp"), .name = "heads"};
  EXPECT_THAT(
      find_guesser("", "/nowhere/bin", {}, model, cure).status().message(),
      HasSubstr("base_model_name_or_path of " + folder.file("mlp") + ": no folder named org/name"));
  EXPECT_THAT(find_guesser("x", "/nowhere/bin", hub, model, cure).status().message(),
              HasSubstr("`--speculative-model` beside"));
}

TEST(Guesser, ANameIsLookedUpLikeAModel) {
  const base::TempFolder folder;
  write_model(folder, "models/tiny", "{}");
  write_model(folder, "models/tiny-draft", "{}");
  const std::string programs = folder.file("build/release/bin");
  std::string cure;
  ModelSource model{.folder = folder.file("models/tiny"), .name = "tiny"};
  EXPECT_EQ(find_guesser("", programs, {}, model, cure).value(), "");
  EXPECT_EQ(find_guesser("tiny-draft", programs, {}, model, cure).value(),
            folder.file("models/tiny-draft"));
  EXPECT_EQ(model.folder, folder.file("models/tiny"));
  EXPECT_THAT(find_guesser("tiny-daft", programs, {}, model, cure).status().message(),
              HasSubstr("`--speculative-model`: no folder named tiny-daft"));
  EXPECT_THAT(cure, HasSubstr("tiny-draft"));
}

// A folder as the tools of the hub leave it: two snapshots, of which refs name one each.
void write_hub_entry(const base::TempFolder& folder) {
  folder.write("models--org--name/refs/main", "c0ffee");
  folder.write("models--org--name/refs/refs/pr/1", "decade\n");
  folder.write("models--org--name/snapshots/c0ffee/config.json", "{}");
  folder.write("models--org--name/snapshots/decade/config.json", "{}");
}

TEST(HubCache, ANameAndAnEntryMeanTheSnapshotOfMain) {
  const base::TempFolder folder;
  write_hub_entry(folder);
  const std::string entry = folder.file("models--org--name");
  const HubCache hub{.folder = folder.path()};
  for (const std::string& id : {std::string("org/name"), entry}) {
    const ModelSource source = find_model(id, "/nowhere/bin", hub);
    EXPECT_EQ(source.folder, entry + "/snapshots/c0ffee");
    EXPECT_EQ(source.name, id);
    EXPECT_TRUE(source.has_revision());
  }
  EXPECT_EQ(find_model(entry, "/nowhere/bin", {}).folder, entry + "/snapshots/c0ffee");
  EXPECT_EQ(find_model("org/name", "/nowhere/bin", {}).folder, "org/name");  // no cache
  EXPECT_FALSE(find_model("org/other", "/nowhere/bin", hub).has_revision());
  folder.write("models--gpt2/snapshots/main/config.json", "{}");
  EXPECT_EQ(find_model("gpt2", "/nowhere/bin", hub).folder,
            folder.file("models--gpt2/snapshots/main"));
}

TEST(HubCache, ARevisionIsARefOrACommit) {
  const base::TempFolder folder;
  write_hub_entry(folder);
  const auto at = [&](const std::string& revision) {
    const ModelSource source =
        find_model("org/name", "/nowhere/bin", {.folder = folder.path(), .revision = revision});
    return std::filesystem::path(source.folder).filename().string();
  };
  EXPECT_EQ(at("main"), "c0ffee");
  EXPECT_EQ(at("refs/pr/1"), "decade");
  EXPECT_EQ(at("decade"), "decade");
  const ModelSource missing =
      find_model("org/name", "/nowhere/bin", {.folder = folder.path(), .revision = "v2"});
  std::string cure;
  EXPECT_EQ(check_model_folder(missing, {}, cure).message(),
            folder.file("models--org--name") + " has no snapshot v2");
  EXPECT_THAT(cure, HasSubstr("--revision: main, refs"));
}

// What the cache holds names no file outside of it.
TEST(HubCache, NothingPointsOutOfTheEntry) {
  const base::TempFolder folder;
  folder.write("models--org--name/refs/main", "../../../secret");
  folder.write("models--org--name/snapshots/x/config.json", "{}");
  folder.write("secret/config.json", "{}");
  const HubCache hub{.folder = folder.path()};
  EXPECT_THAT(find_model("org/name", "/nowhere/bin", hub).folder, Not(HasSubstr("secret")));
  EXPECT_EQ(find_model("../secret", "/nowhere/bin", hub).folder, "../secret");
  EXPECT_EQ(find_model("org/name/more", "/nowhere/bin", hub).folder, "org/name/more");
}

// Reads as a user without rights for as long as it lives; root may read everything.
class WithoutRights {
 public:
  WithoutRights() {
    if (geteuid() == 0) is_other_ = seteuid(65534) == 0;
  }
  ~WithoutRights() {
    if (is_other_ && seteuid(0) != 0) ADD_FAILURE() << "cannot become root again";
  }
  WithoutRights(const WithoutRights&) = delete;
  WithoutRights& operator=(const WithoutRights&) = delete;

 private:
  bool is_other_ = false;
};

class ModelFolder : public ::testing::Test {
 protected:
  std::string check(const std::string& path, const std::string& name = "x") {
    cure_.clear();
    return check_model_folder({.folder = path, .name = name}, {"demo", "tiny"}, cure_).message();
  }

  base::TempFolder folder_;
  std::string cure_;
};

TEST_F(ModelFolder, WhatIsMissingIsNamedWithACure) {
  EXPECT_THAT(check(folder_.file("none")), HasSubstr("no folder named"));
  EXPECT_THAT(cure_, HasSubstr("Models that come along: demo, tiny"));
  folder_.write("m/readme.txt", "");
  EXPECT_THAT(check(folder_.file("m")), HasSubstr("has no config.json"));
  EXPECT_THAT(cure_, Not(HasSubstr("another folder")));
  check(folder_.file("m"), "demo");
  EXPECT_THAT(cure_, HasSubstr("For the model demo that comes along, start in another folder."));
  folder_.write("m/config.json", "{}");
  EXPECT_THAT(check(folder_.file("m")), HasSubstr("has no *.safetensors file"));
  EXPECT_THAT(cure_, HasSubstr("Finish the download"));
  folder_.write("m/pytorch_model.bin", "");
  EXPECT_THAT(check(folder_.file("m")), HasSubstr("has no *.safetensors file"));
  EXPECT_THAT(
      cure_,
      HasSubstr(
          "Pickle files such as pytorch_model.bin can run code, so they are never read. Convert"));
  folder_.write("m/model.safetensors", "");
  EXPECT_EQ(check(folder_.file("m")), "");
  EXPECT_EQ(cure_, "");
}

TEST_F(ModelFolder, AFileIsNoFolder) {
  folder_.write("notes.txt", "");
  EXPECT_EQ(check(folder_.file("notes.txt")),
            folder_.file("notes.txt") + " is a file, not the folder of a model");
  EXPECT_THAT(cure_, HasSubstr("Give a GGUF file, or the folder"));
  EXPECT_THAT(check(folder_.file("y.gguf")), HasSubstr("no folder named"));
}

TEST_F(ModelFolder, AGgufFileIsAModel) {
  const auto found = [&](const std::string& name) {
    return find_model(folder_.file(name), folder_.path(), {}).folder;
  };
  folder_.write("m/model-Q8_0.gguf", "");
  EXPECT_EQ(found("m/model-Q8_0.gguf"), folder_.file("m/model-Q8_0.gguf"));
  EXPECT_EQ(check(folder_.file("m/model-Q8_0.gguf")), "");
  EXPECT_EQ(found("m"), folder_.file("m/model-Q8_0.gguf")) << "the only one";
  folder_.write("m/mmproj-f16.gguf", "");
  EXPECT_EQ(found("m"), folder_.file("m/model-Q8_0.gguf")) << "the other is no text model";
  folder_.write("m/model-q4_k_m-00001-of-00002.gguf", "");
  folder_.write("m/model-q4_k_m-00002-of-00002.gguf", "");
  EXPECT_EQ(found("m"), folder_.file("m")) << "which one?";
  EXPECT_THAT(check(found("m")), HasSubstr("has no config.json"));
  EXPECT_THAT(cure_, HasSubstr("model-Q8_0.gguf, model-q4_k_m-00001-of-00002.gguf"));
  EXPECT_EQ(found("m:Q4_K_M"), folder_.file("m/model-q4_k_m-00001-of-00002.gguf"));
  EXPECT_EQ(found("m:q8_0"), folder_.file("m/model-Q8_0.gguf"));
  EXPECT_EQ(find_model(folder_.file("m:q8_0"), folder_.path(), {}).name, folder_.file("m:q8_0"));
  EXPECT_EQ(found("m:Q4_K"), folder_.file("m:Q4_K")) << "a part of a word is none";
  EXPECT_THAT(check(found("m:Q4_K")), HasSubstr("m has not one GGUF file of type Q4_K"));
  EXPECT_THAT(cure_, HasSubstr("model-Q8_0.gguf"));
  folder_.write("m/config.json", "{}");
  EXPECT_EQ(found("m"), folder_.file("m")) << "a checkpoint wins";
  EXPECT_EQ(found("m:Q8_0"), folder_.file("m/model-Q8_0.gguf"));
}

TEST_F(ModelFolder, WhatMayNotBeReadSaysSo) {
  namespace fs = std::filesystem;
  constexpr auto kForAll = static_cast<fs::perms>(0755);
  folder_.write("m/config.json", "{}");
  folder_.write("m/model.safetensors", "");
  fs::permissions(folder_.path(), kForAll);
  fs::permissions(folder_.file("m"), kForAll);
  fs::permissions(folder_.file("m/config.json"), fs::perms::none);
  {
    const WithoutRights nobody;
    EXPECT_EQ(check(folder_.file("m")),
              folder_.file("m/config.json") + " cannot be read: Permission denied");
  }
  EXPECT_THAT(cure_, HasSubstr("Make it readable"));
  fs::permissions(folder_.file("m"), fs::perms::none);
  {
    const WithoutRights nobody;
    EXPECT_EQ(check(folder_.file("m")), folder_.file("m") + " cannot be read: Permission denied");
    EXPECT_EQ(check(folder_.file("m/below")),
              folder_.file("m/below") + " cannot be read: Permission denied");
  }
  fs::permissions(folder_.file("m"), fs::perms::owner_all);
}

}  // namespace
}  // namespace coxswain::serve
