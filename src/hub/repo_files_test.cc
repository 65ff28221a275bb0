#include "hub/repo_files.h"

#include <gtest/gtest.h>

namespace coxswain::hub {
namespace {

const std::string kCommit(40, 'c');
const std::string kBlob(40, 'b');

std::string list_with(const std::string& name) {
  return R"({"sha":")" + kCommit + R"(","siblings":[{"rfilename":")" + name +
         R"(","size":3,"blobId":")" + kBlob + R"("}]})";
}

Repo repo_of(const std::vector<std::string>& names) {
  Repo out{.commit = kCommit, .files = {}};
  for (const std::string& name : names) out.files.push_back({name, kBlob, 3});
  return out;
}

std::vector<std::string> chosen(const std::vector<std::string>& names, const std::string& type) {
  const auto files = choose_files(repo_of(names), type);
  if (!files.ok()) return {files.status().message()};
  std::vector<std::string> out;
  for (const RepoFile& file : *files) out.push_back(file.name);
  return out;
}

using Names = std::vector<std::string>;

TEST(RepoFiles, NamesThatLeaveTheirFolderAreRefused) {
  EXPECT_TRUE(parse_repo(list_with("a/b.json")).ok());
  for (const char* name :
       {"", "/etc/x", "../x", "a/../x", "a//b", "a/", ".", "a\\\\b", "a\\nb", "a\\u0000b", "./a"}) {
    const auto repo = parse_repo(list_with(name));
    ASSERT_FALSE(repo.ok()) << name;
    EXPECT_EQ(repo.status().code(), Code::kDataLoss) << name;
  }
  EXPECT_FALSE(parse_repo(list_with(std::string(201, 'a'))).ok());
}

TEST(RepoFiles, ADigestIsHexadecimal) {
  EXPECT_FALSE(parse_repo(R"({"sha":")" + kCommit +
                          R"(","siblings":[{"rfilename":"a","size":3,"blobId":"../x"}]})")
                   .ok());
  EXPECT_FALSE(parse_repo(R"({"sha":"../../x","siblings":[]})").ok());
  const auto lfs =
      parse_repo(R"({"sha":")" + kCommit + R"(","siblings":[{"rfilename":"a","size":1,"blobId":")" +
                 kBlob + R"(","lfs":{"sha256":")" + std::string(64, 'a') + R"(","size":7}}]})");
  ASSERT_TRUE(lfs.ok());
  EXPECT_EQ(lfs->files[0].size_bytes, 7u);
  EXPECT_EQ(lfs->files[0].digest.size(), 64u);
}

TEST(RepoFiles, IdsAndRevisions) {
  for (const char* id : {"gpt2", "org/name", "Org-1/na.me_2"}) EXPECT_TRUE(check_repo_id(id).ok());
  for (const char* id : {"", "/a", "a/", "a/b/c", "../a", "a/..", "a/b?c", "a--b/c", "a b"}) {
    EXPECT_FALSE(check_repo_id(id).ok()) << id;
  }
  for (const char* name : {"main", "v1.0", "refs/pr/1"}) EXPECT_TRUE(check_revision(name).ok());
  for (const char* name : {"", "../x", "a/../b", "/a", "a b", "a\n"}) {
    EXPECT_FALSE(check_revision(name).ok()) << name;
  }
}

TEST(RepoFiles, SafetensorsComeWithConfigurationAndTokenizer) {
  EXPECT_EQ(chosen({"README.md",
                    "config.json",
                    "model-1.safetensors",
                    "consolidated.safetensors",
                    "pytorch_model.bin",
                    "tokenizer.model",
                    "onnx/model.json",
                    "x.gguf"},
                   ""),
            (Names{"config.json", "model-1.safetensors", "tokenizer.model"}));
  EXPECT_EQ(chosen({"consolidated.safetensors"}, ""), Names{"consolidated.safetensors"});
}

TEST(RepoFiles, OneGgufModelIsChosenWithAllItsParts) {
  const Names files{"m-Q4_K_M.gguf",
                    "m-Q8_0-00001-of-00002.gguf",
                    "m-Q8_0-00002-of-00002.gguf",
                    "mmproj-Q8_0.gguf"};
  EXPECT_EQ(chosen(files, "q4_k_m"), Names{"m-Q4_K_M.gguf"});
  EXPECT_EQ(chosen(files, "Q8_0"),
            (Names{"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"}));
  EXPECT_NE(chosen(files, "").at(0).find("m-Q4_K_M.gguf, m-Q8_0-00001"), std::string::npos);
  EXPECT_NE(chosen(files, "Q4_K").at(0).find("not one GGUF model of type Q4_K"), std::string::npos);
}

TEST(RepoFiles, PickleFilesAreRefusedWithTheReason) {
  EXPECT_NE(chosen({"pytorch_model.bin"}, "").at(0).find("can run code"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::hub
