#include "weights/checkpoint.h"

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/test_files.h"

namespace coxswain::weights {
namespace {

using ::testing::HasSubstr;

std::string one_tensor(const std::string& name, const std::string& data) {
  const std::string n = std::to_string(data.size());
  return safetensors_bytes(
      R"({")" + name + R"(":{"dtype":"I8","shape":[)" + n + R"(],"data_offsets":[0,)" + n + "]}}",
      data);
}

TEST(Checkpoint, OpensOneFile) {
  const base::TempFolder folder;
  folder.write("model.safetensors", one_tensor("a", "xyz"));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->n_bytes(), 3U);
  EXPECT_TRUE(checkpoint->find("a"));
  EXPECT_FALSE(checkpoint->find("b"));
}

TEST(Checkpoint, OpensShardsByTheirIndex) {
  const base::TempFolder folder;
  folder.write("model-1.safetensors", one_tensor("a", "xyz"));
  folder.write("model-2.safetensors", one_tensor("b", "uvwx"));
  folder.write(
      "model.safetensors.index.json",
      R"({"metadata":{},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->files().size(), 2U);
  std::string out(4, '\0');
  ASSERT_TRUE(checkpoint->find("b").read(0, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "uvwx");
}

TEST(Checkpoint, RefusesAnIndexThatDoesNotMatchTheFiles) {
  struct Case {
    std::string index;
    std::string message;
  };
  const std::array cases{
      Case{R"({})", "weight_map is missing"},
      Case{R"({"weight_map":{}})", "weight_map is empty"},
      Case{R"({"weight_map":{"a":1}})", "\"a\" is not a string"},
      Case{R"({"weight_map":{"a":"../1.safetensors"}})", "does not name a file beside the index"},
      Case{R"({"weight_map":{"a":"/etc/passwd"}})", "does not name a file beside the index"},
      Case{R"({"weight_map":{"a":"none.safetensors"}})", "cannot be opened"},
      Case{R"({"weight_map":{"c":"1.safetensors"}})", "tensor \"c\" is in no file"},
      Case{R"({"weight_map":{"a":"2.safetensors","b":"1.safetensors"}})",
           "is not in 2.safetensors"},
      Case{R"({"weight_map":{"a":"1.safetensors","b":"3.safetensors"}})",
           "tensor \"a\" is also in"},
      Case{R"({"weight_map":)", "model.safetensors.index.json"},
  };
  const base::TempFolder folder;
  folder.write("1.safetensors", one_tensor("a", "xyz"));
  folder.write("2.safetensors", one_tensor("b", "xyz"));
  folder.write("3.safetensors", one_tensor("a", "xyz"));
  for (const Case& c : cases) {
    folder.write("model.safetensors.index.json", c.index);
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_FALSE(checkpoint.ok()) << c.index;
    EXPECT_THAT(checkpoint.status().message(), HasSubstr(c.message));
  }
}

TEST(Checkpoint, SaysWhichFilesItLooksFor) {
  const base::TempFolder folder;
  const auto status = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("model.safetensors"));
  EXPECT_EQ(Checkpoint::open(folder.path() + "/none").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace coxswain::weights
